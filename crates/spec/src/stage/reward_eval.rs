//! `kind = "reward-eval"`: accuracy, margin and score statistics on held-out pairs, and a gate.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RewardEval {
    /// A `reward` or `hydra-sft` stage.
    pub model: String,
    /// The `prepare` stage.
    pub data: String,
    pub split: String,
    /// Stages that require this one are refused when the accuracy is below.
    pub min_accuracy: f64,
    pub batch_size: usize,
}

impl Default for RewardEval {
    fn default() -> Self {
        Self {
            model: String::new(),
            data: String::new(),
            split: "eval".into(),
            min_accuracy: 0.0,
            batch_size: 32,
        }
    }
}
