//! `kind = "generate"`: answers of several models to the same held-out prompts.

use crate::section::section;

section! {
    /// `kind = "generate"`
    pub struct Generate {
        /// Stages whose models answer; at least one.
        pub models: Vec<String> = Vec::new() => stage(&["pretrain", "sft", "hydra-sft", "ppo"]).required(),
        /// The `prepare` stage.
        pub data: String = String::new() => stage(&["prepare"]).required(),
        /// The split whose prompts are answered.
        pub split: String = "eval".into() => split(),
        /// Prompts used, from the split's start; 0 = all.
        pub max_samples: usize = 0,
        /// Most tokens of an answer.
        pub max_new_tokens: usize = 128 => at_least(1.0),
        /// 0 = greedy.
        pub temperature: f64 = 1.0 => at_least(0.0),
        /// Sample from the so many likeliest tokens; 0 = off.
        pub top_k: usize = 0,
        /// Sample from the likeliest tokens that together have this probability; 1 = off.
        pub top_p: f64 = 1.0 => above(0.0).at_most(1.0),
        /// Rows generated at once; texts do not depend on it beyond rounding.
        pub batch_size: usize = 32 => at_least(1.0),
    }
}
