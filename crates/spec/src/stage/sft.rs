//! `kind = "sft"`: supervised fine-tuning on the preferred responses.

use super::Training;
use crate::section::section;

section! {
    /// `kind = "sft"`
    pub struct Sft {
        /// Stage to start from; empty = `[model] base`.
        pub model: String = String::new() => stage(&["pretrain", "sft", "hydra-sft"]),
        /// The `prepare` stage.
        pub data: String = String::new() => stage(&["prepare"]).required(),
        /// The split trained on.
        pub split: String = "sft".into() => split(),
        /// Also train on the prompt's tokens.
        pub train_on_prompt: bool = false,
    }
    flatten {
        pub training: Training,
    }
}
