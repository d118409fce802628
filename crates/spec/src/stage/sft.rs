//! `kind = "sft"`: supervised fine-tuning on the preferred responses.

use serde::{Deserialize, Serialize};

use super::Training;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sft {
    /// Stage to start from; empty = `[model] base`.
    pub model: String,
    /// The `prepare` stage.
    pub data: String,
    pub split: String,
    /// Also train on the prompt's tokens.
    pub train_on_prompt: bool,
    #[serde(flatten)]
    pub training: Training,
}

impl Default for Sft {
    fn default() -> Self {
        Self {
            model: String::new(),
            data: String::new(),
            split: "sft".into(),
            train_on_prompt: false,
            training: Training::default(),
        }
    }
}
