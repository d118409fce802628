//! Why a command ended without doing its job, and the exit code for it.

use engine::EngineError;
use miette::Diagnostic;
use plan::PlanError;
use spec::{Mistake, SpecErrors};
use store::StoreError;
use thiserror::Error;

/// Exit codes that are not said by an error of another crate.
pub mod exit {
    pub const OK: u8 = 0;
    pub const STAGE_FAILED: u8 = 1;
    pub const USAGE: u8 = 2;
    pub const CONFIG: u8 = 3;
    pub const STATE: u8 = 6;
}

/// Why a command ended.
#[derive(Debug, Error)]
pub enum Failure {
    /// Something about how the command was called.
    #[error("{message}")]
    Usage { message: String, help: String },
    /// The pipeline file cannot be read at all.
    #[error("cannot read {path}: {source}")]
    File { path: String, source: std::io::Error },
    #[error("{path} is not UTF-8 text: see line {line}")]
    NotText { path: String, line: usize },
    #[error(transparent)]
    Spec(#[from] SpecErrors),
    /// What the file names is not what it must be.
    #[error("{} in what the file names", if mistakes.len() == 1 { "1 mistake".into() } else { format!("{} mistakes", mistakes.len()) })]
    Outside { mistakes: Vec<Mistake> },
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
}

impl Failure {
    pub fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Failure::Usage { message: message.into(), help: help.into() }
    }

    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Failure::Io { what, source }
    }

    /// As the table in `docs/reference/cli.md` has it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage { .. } => exit::USAGE,
            Failure::File { .. }
            | Failure::NotText { .. }
            | Failure::Spec(_)
            | Failure::Outside { .. }
            | Failure::Plan(_) => exit::CONFIG,
            Failure::Store(error) => error.exit_code(),
            Failure::Engine(error) => error.exit_code(),
            Failure::Io { .. } => exit::STATE,
        }
    }

    /// The mistakes in the pipeline file that it consists of, if it does.
    pub fn mistakes(&self) -> &[Mistake] {
        match self {
            Failure::Spec(errors) => &errors.mistakes,
            Failure::Outside { mistakes } => mistakes,
            _ => &[],
        }
    }

    /// The error of another crate that knows its code and help itself.
    pub fn diagnostic(&self) -> Option<&dyn Diagnostic> {
        match self {
            Failure::Store(error) => Some(error),
            Failure::Engine(error) => Some(error),
            _ => None,
        }
    }

    /// `E0xyz`, where there is one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Failure::Plan(error) => Some(error.code()),
            _ => None,
        }
    }

    pub fn help(&self) -> Option<&str> {
        match self {
            Failure::Usage { help, .. } if !help.is_empty() => Some(help),
            Failure::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Some("relative paths start at the current directory")
            }
            Failure::NotText { .. } => Some("pipeline files are UTF-8; save it anew with that encoding"),
            _ => None,
        }
    }
}
