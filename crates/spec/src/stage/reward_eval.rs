//! `kind = "reward-eval"`: accuracy, margin and score statistics on held-out pairs, and a gate.

use crate::section::section;

section! {
    /// `kind = "reward-eval"`
    pub struct RewardEval {
        /// A `reward` or `hydra-sft` stage.
        pub model: String = String::new() => stage(&["reward", "hydra-sft"]).required(),
        /// The `prepare` stage.
        pub data: String = String::new() => stage(&["prepare"]).required(),
        /// The split evaluated on.
        pub split: String = "eval".into() => split(),
        /// Stages that require this one are refused when the accuracy is below.
        pub min_accuracy: f64 = 0.0 => ratio(),
        /// Rows per forward pass; results do not depend on it beyond rounding.
        pub batch_size: usize = 32 => at_least(1.0),
    }
}
