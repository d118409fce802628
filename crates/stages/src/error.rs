//! What can stop a stage, and what the engine is told of it. Codes are explained in `docs/errors/stages.md`.

use std::path::{Path, PathBuf};

use data::DataError;
use engine::protocol::FailureClass;
use eval::EvalError;
use miette::Diagnostic;
use model::ModelError;
use thiserror::Error;
use train::{Class, TrainError};

#[derive(Debug, Error, Diagnostic)]
pub enum StageError {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Data(#[from] DataError),

    #[error(transparent)]
    #[diagnostic(transparent)]
    Train(#[from] TrainError),

    #[error(transparent)]
    Model(#[from] ModelError),

    #[error(transparent)]
    Eval(#[from] EvalError),

    #[error(transparent)]
    Report(#[from] report::ReportError),

    #[error(transparent)]
    #[diagnostic(transparent)]
    Store(#[from] store::StoreError),

    #[error("cannot {action} {}: {source}", path.display())]
    #[diagnostic(code(E0901), help("is the disk full, or the state folder not writable?"))]
    File { action: &'static str, path: PathBuf, source: std::io::Error },

    #[error("{} is not what it should be: {problem}", path.display())]
    #[diagnostic(code(E0902), help("delete that folder and run again: what made it runs anew"))]
    Artifact { path: PathBuf, problem: String },

    #[error("the request is not for this program: {problem}")]
    #[diagnostic(code(E0903), help("driver and worker must be the same version of `pipeline`"))]
    Request { problem: String },

    #[error("`{stage}` and `{data}` use different tokenizers")]
    #[diagnostic(
        code(E0904),
        help("give the `prepare` stage the `model` that the training stages start from")
    )]
    TokenizerMismatch { stage: String, data: String },

    #[error("split `{split}` of `{data}` has no {what}")]
    #[diagnostic(code(E0905), help("see the stage's card.json for what was dropped and why"))]
    EmptySplit { data: String, split: String, what: &'static str },

    #[error("a panic: {message}")]
    #[diagnostic(
        code(E0906),
        help("this is a bug, or memory ran out: please report it with the stage's log")
    )]
    Panic { message: String },

    #[error("accuracy {accuracy:.4} is below min_accuracy = {min_accuracy}")]
    #[diagnostic(
        code(E0907),
        help("train the reward model longer or on more pairs, or lower `min_accuracy` knowingly")
    )]
    RewardGate { accuracy: f64, min_accuracy: f64 },

    #[error("`{device}` cannot be used: {problem}")]
    #[diagnostic(
        code(E0908),
        help("see that `nvidia-smi` lists the GPU, or take `device = \"auto\"` or `device = \"cpu\"`")
    )]
    NoDevice { device: String, problem: String },

    #[error("`{device}` cannot be used: this program was built without CUDA")]
    #[diagnostic(
        code(E0909),
        help("build it with `--features cuda`, or take `device = \"auto\"` or `device = \"cpu\"`")
    )]
    NoCuda { device: String },
}

impl StageError {
    /// For `map_err`: names what was done to which file.
    pub fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| Self::File { action, path, source }
    }

    /// Who has to act.
    pub fn class(&self) -> FailureClass {
        match self {
            Self::RewardGate { .. } | Self::Eval(EvalError::CostCap { .. } | EvalError::Coverage { .. }) => {
                FailureClass::Gate
            }
            Self::Train(error) => match error.class() {
                Class::User => FailureClass::User,
                Class::Gate => FailureClass::Gate,
                Class::Internal => FailureClass::Internal,
                Class::Infra => FailureClass::Infra,
            },
            Self::Eval(error) if error.is_transient() => FailureClass::Infra,
            Self::Store(_) | Self::File { .. } | Self::Data(DataError::Write { .. }) => FailureClass::Infra,
            Self::Panic { .. } | Self::Request { .. } => FailureClass::Internal,
            _ => FailureClass::User,
        }
    }

    /// The documented code, `E0xxx`.
    pub fn code(&self) -> String {
        match self {
            Self::Model(error) => error.code().to_owned(),
            Self::Eval(error) => error.code().to_owned(),
            Self::Report(error) => error.code().to_owned(),
            other => Diagnostic::code(other).map(|code| code.to_string()).unwrap_or_default(),
        }
    }

    /// What a person can do.
    pub fn advice(&self) -> String {
        match self {
            Self::Eval(error) => error.help().unwrap_or_default().to_owned(),
            other => Diagnostic::help(other).map(|help| help.to_string()).unwrap_or_default(),
        }
    }
}
