//! `kind = "rouge"`: ROUGE of the answers against the preferred responses.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rouge {
    /// The `generate` stage.
    pub completions: String,
    pub use_stemmer: bool,
}

impl Default for Rouge {
    fn default() -> Self {
        Self { completions: String::new(), use_stemmer: true }
    }
}
