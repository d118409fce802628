//! Why a pipeline cannot be planned. Codes are explained in `docs/errors/plan.md`.

use std::path::PathBuf;

/// Why a pipeline cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A file that a stage reads cannot be hashed.
    #[error("stage `{stage}` reads {}, which cannot be read: {source}", path.display())]
    Unreadable {
        stage: String,
        /// Path of the key that names it: `stages.data.path`.
        key: String,
        path: PathBuf,
        source: std::io::Error,
    },
    /// Only for pipelines that did not come out of `spec::parse`, which reports this itself.
    #[error("the stages {} form a cycle", stages.join(", "))]
    Cycle { stages: Vec<String> },
    /// Only for pipelines that did not come out of `spec::parse`, which reports this itself.
    #[error("stage `{stage}` depends on `{unknown}`, which is not in the pipeline")]
    UnknownStage { stage: String, unknown: String },
}

impl PlanError {
    /// `E02xx`, stable.
    pub fn code(&self) -> &'static str {
        match self {
            PlanError::Unreadable { .. } => "E0201",
            PlanError::Cycle { .. } => "E0202",
            PlanError::UnknownStage { .. } => "E0203",
        }
    }
}
