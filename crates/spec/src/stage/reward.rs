//! `kind = "reward"`: a reward model by itself, trained on pairs.

use serde::{Deserialize, Serialize};

use super::Training;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reward {
    /// Stage to start from; empty = `[model] base`.
    pub model: String,
    /// The `prepare` stage.
    pub data: String,
    pub split: String,
    pub reward_loss: RewardLoss,
    #[serde(flatten)]
    pub training: Training,
}

impl Default for Reward {
    fn default() -> Self {
        Self {
            model: String::new(),
            data: String::new(),
            split: "sft".into(),
            reward_loss: RewardLoss::LastToken,
            training: Training::default(),
        }
    }
}

/// Where the pair loss is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardLoss {
    /// At the last real token of each response (EOS included).
    LastToken,
    /// Mean over all positions from the first differing token to the longer end, as DeepSpeed-Chat trains.
    PerToken,
}
