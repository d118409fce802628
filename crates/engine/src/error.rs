//! What can go wrong with a run as such; a stage's own failure is an outcome, not an error.

use std::path::PathBuf;

use miette::Diagnostic;
use store::StoreError;
use thiserror::Error;

/// Errors of this crate. [`EngineError::exit_code`] is what a command ends with.
#[derive(Debug, Error, Diagnostic)]
pub enum EngineError {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Store(#[from] StoreError),

    #[error("run {run} was planned by another version: {source}")]
    #[diagnostic(code(E0320), help("use `pipeline run` on its pipeline file; finished stages are reused"))]
    OldPlan { run: String, source: serde_json::Error },

    #[error("{what} could not be written as JSON: {source}")]
    #[diagnostic(code(E0321), help("this is a bug worth reporting"))]
    Json { what: &'static str, source: serde_json::Error },

    #[error("there is no stage {0:?} in the plan")]
    #[diagnostic(code(E0324), help("`pipeline plan` lists the stages"))]
    UnknownStage(String),

    #[error("only {free} bytes are free for {}, the run asks for {wanted}", path.display())]
    #[diagnostic(code(E0327), help("make room, or lower `min_free_disk` in [executor]"))]
    LowDisk { path: PathBuf, free: u64, wanted: u64 },

    #[error("stage {stage} asks for {wanted} bytes of memory, there are {there}")]
    #[diagnostic(code(E0330), help("lower its `memory`, or raise `memory` in [executor]"))]
    TooMuchMemory { stage: String, wanted: u64, there: u64 },

    #[error("{executor} does not answer; `{stage}` goes on or has ended, and is taken up by the next run")]
    #[diagnostic(code(E0347), help("`pipeline resume` when it answers again"))]
    Unreachable { stage: String, executor: String },

    #[error("a task of the engine ended by itself: {0}")]
    #[diagnostic(code(E0325), help("this is a bug worth reporting; `pipeline resume` goes on"))]
    Task(String),
}

impl EngineError {
    /// As the design's table has it: 4 locked, 5 executor, 6 state database, 2 usage.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Store(e) => e.exit_code(),
            Self::OldPlan { .. } | Self::Json { .. } | Self::LowDisk { .. } => 6,
            Self::Unreachable { .. } => 5,
            Self::UnknownStage(_) | Self::TooMuchMemory { .. } => 2,
            Self::Task(_) => 1,
        }
    }
}

/// Codes of failures that the engine itself finds in a stage.
pub mod code {
    /// The worker's program cannot be started.
    pub const CANNOT_START: &str = "E0322";
    /// An input changed after the run was planned.
    pub const INPUT_CHANGED: &str = "E0323";
    /// A finished result did not match its manifest or could not be moved into place.
    pub const NOT_TAKEN: &str = "E0328";
    /// It took longer than the stage's `timeout`.
    pub const TIMEOUT: &str = "E0329";
    /// The worker ended without a verdict, too often.
    pub const DIED: &str = "E0326";
    /// A scheduler will not take the job.
    pub const REFUSED: &str = "E0340";
    /// A job was cancelled, not by us.
    pub const CANCELLED: &str = "E0341";
    /// A job's time was up before it had kept a new checkpoint, too often.
    pub const TIME_LIMIT: &str = "E0342";
    /// A job had to give way to another one, or its node failed.
    pub const DISPLACED: &str = "E0343";
    /// A job used more memory than it had asked for.
    pub const OUT_OF_MEMORY: &str = "E0344";
    /// The worker was asked to stop, not by us, before it had kept a new checkpoint, too often.
    pub const INTERRUPTED: &str = "E0346";
    /// A job failed before its worker began.
    pub const JOB_FAILED: &str = "E0345";
}
