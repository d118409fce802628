//! `kind = "generate"`: answers of several models to the same held-out prompts.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Generate {
    /// Stages whose models answer; at least one.
    pub models: Vec<String>,
    /// The `prepare` stage.
    pub data: String,
    pub split: String,
    /// Prompts used, from the split's start; 0 = all.
    pub max_samples: usize,
    pub max_new_tokens: usize,
    /// 0 = greedy.
    pub temperature: f64,
    /// 0 = off.
    pub top_k: usize,
    /// 1 = off.
    pub top_p: f64,
    pub batch_size: usize,
}

impl Default for Generate {
    fn default() -> Self {
        Self {
            models: Vec::new(),
            data: String::new(),
            split: "eval".into(),
            max_samples: 0,
            max_new_tokens: 128,
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            batch_size: 32,
        }
    }
}
