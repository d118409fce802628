//! What can go wrong with a model's files.

use std::path::PathBuf;

/// An error of this crate. The code at the start of each message is explained in `docs/errors/model.md`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file could not be read or written.
    #[error("E0501: cannot {action} {path}", path = path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A JSON file is not valid JSON or not of the expected form.
    #[error("E0502: {path} is not valid", path = path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// `config.json` describes a model that this crate does not run.
    #[error("E0503: {path}: unsupported model\n{}", list(problems), path = path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// One line per field.
        problems: Vec<String>,
    },
    /// A weights file is not a valid safetensors file.
    #[error("E0504: {path} is not a valid safetensors file: {problem}", path = path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Tensors are missing, unknown, or have another shape or type than the model.
    #[error("E0505: the tensors in {path} do not fit the model\n{}", list(problems), path = path.display())]
    Tensors {
        /// The file.
        path: PathBuf,
        /// One line per tensor.
        problems: Vec<String>,
    },
    /// A folder has no safetensors weights.
    #[error("E0506: no model.safetensors in {folder}{}", hint(*has_pickle), folder = folder.display())]
    NoWeights {
        /// The folder.
        folder: PathBuf,
        /// Whether it has PyTorch's `.bin` files instead.
        has_pickle: bool,
    },
    /// An adapter cannot be made or loaded.
    #[error("E0507: {message}")]
    Adapter {
        /// What does not fit.
        message: String,
    },
}

impl ModelError {
    /// The documented code, `E05xx`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::File { .. } => "E0501",
            Self::Json { .. } => "E0502",
            Self::Config { .. } => "E0503",
            Self::Safetensors { .. } => "E0504",
            Self::Tensors { .. } => "E0505",
            Self::NoWeights { .. } => "E0506",
            Self::Adapter { .. } => "E0507",
        }
    }
}

fn list(problems: &[String]) -> String {
    problems.iter().map(|problem| format!("  - {problem}")).collect::<Vec<_>>().join("\n")
}

fn hint(has_pickle: bool) -> &'static str {
    if has_pickle {
        "; PyTorch's .bin files are not read because they can run code: save the model again with \
         `save_pretrained(folder, safe_serialization=True)`"
    } else {
        ""
    }
}
