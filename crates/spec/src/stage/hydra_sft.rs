//! `kind = "hydra-sft"`: LM loss + `reward_loss_coef` · reward loss on one decoder with two heads.

use super::{RewardLoss, Training};
use crate::section::section;

section! {
    /// `kind = "hydra-sft"`
    pub struct HydraSft {
        /// Stage to start from; empty = `[model] base`.
        pub model: String = String::new() => stage(&["pretrain", "sft", "hydra-sft"]),
        /// The `prepare` stage.
        pub data: String = String::new() => stage(&["prepare"]).required(),
        /// The split trained on.
        pub split: String = "sft".into() => split(),
        /// The paper's γ (arXiv 2309.00754); `gamma` stays the RL discount.
        pub reward_loss_coef: f64 = 0.1 => at_least(0.0),
        /// Where the pair loss is read.
        pub reward_loss: RewardLoss = RewardLoss::LastToken,
        /// Also train on the prompt's tokens.
        pub train_on_prompt: bool = false,
    }
    flatten {
        pub training: Training,
    }
}
