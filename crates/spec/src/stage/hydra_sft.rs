//! `kind = "hydra-sft"`: LM loss + `reward_loss_coef` · reward loss on one decoder with two heads.

use serde::{Deserialize, Serialize};

use super::{RewardLoss, Training};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HydraSft {
    /// Stage to start from; empty = `[model] base`.
    pub model: String,
    /// The `prepare` stage.
    pub data: String,
    pub split: String,
    /// The paper's γ (arXiv 2309.00754); `gamma` stays the RL discount.
    pub reward_loss_coef: f64,
    pub reward_loss: RewardLoss,
    /// Also train on the prompt's tokens.
    pub train_on_prompt: bool,
    #[serde(flatten)]
    pub training: Training,
}

impl Default for HydraSft {
    fn default() -> Self {
        Self {
            model: String::new(),
            data: String::new(),
            split: "sft".into(),
            reward_loss_coef: 0.1,
            reward_loss: RewardLoss::LastToken,
            train_on_prompt: false,
            training: Training::default(),
        }
    }
}
