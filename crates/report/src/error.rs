//! What can go wrong while reporting. Codes are documented in `docs/errors/report.md`.

use std::path::PathBuf;

/// Every error of this crate; [`ReportError::code`] is stable and documented.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("stage `{stage}`: {}: {message}", path.display())]
    Malformed { stage: String, path: PathBuf, message: String },
    #[error("stage `{stage}`: {source}")]
    Eval { stage: String, source: eval::EvalError },
}

impl ReportError {
    /// The stable code, `E08xx`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "E0801",
            Self::Malformed { .. } => "E0802",
            Self::Eval { .. } => "E0803",
        }
    }

    /// What the user can do.
    pub fn help(&self) -> Option<&'static str> {
        Some(match self {
            Self::Io { .. } => "check that the disk has room and the folder can be written",
            Self::Malformed { .. } | Self::Eval { .. } => {
                "the artifact is damaged or of another version; run its stage again"
            }
        })
    }

    pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { path, source }
    }
}
