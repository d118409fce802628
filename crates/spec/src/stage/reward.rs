//! `kind = "reward"`: a reward model by itself, trained on pairs.

use super::Training;
use crate::section::{choice, section};

section! {
    /// `kind = "reward"`
    pub struct Reward {
        /// Stage to start from; empty = `[model] base`.
        pub model: String = String::new() => stage(&["pretrain", "sft", "hydra-sft"]),
        /// The `prepare` stage.
        pub data: String = String::new() => stage(&["prepare"]).required(),
        /// The split trained on.
        pub split: String = "sft".into() => split(),
        /// Where the pair loss is read.
        pub reward_loss: RewardLoss = RewardLoss::LastToken,
    }
    flatten {
        pub training: Training,
    }
}

choice! {
    /// Where the pair loss is read.
    pub enum RewardLoss {
        /// At the last real token of each response (EOS included).
        LastToken = "last_token",
        /// Mean over all positions from the first differing token to the longer end, as DeepSpeed-Chat trains.
        PerToken = "per_token",
    }
}
