//! `kind = "judge"`: pairwise verdicts over the answers of a `generate` stage.

use crate::section::{choice, section};

section! {
    /// `kind = "judge"`
    pub struct Judge {
        /// The `generate` stage.
        pub completions: String = String::new() => stage(&["generate"]).required(),
        /// Who judges.
        pub provider: Provider = Provider::RewardModel,
        /// `reward-model`: the `reward` or `hydra-sft` stage that scores. `openai`: the endpoint's model name.
        pub model: String = String::new() => any().required(),
        /// `openai`: endpoint up to and including `/v1`.
        pub base_url: String = "https://api.openai.com/v1".into(),
        /// `openai`: environment variable that holds the key; empty = send none.
        pub api_key_env: String = "OPENAI_API_KEY".into() => execution(),
        /// `openai`: jinja prompt file; empty = the built-in `evaluations/prompts/pairwise.jinja`.
        pub prompt: String = String::new(),
        /// `openai`: requests under way at once.
        pub max_concurrency: usize = 8 => at_least(1.0).execution(),
        /// `openai`: time before a request is given up.
        pub timeout: f64 = 60.0 => duration().execution(),
        /// `openai`: attempts per judgement.
        pub max_attempts: usize = 5 => at_least(1.0).execution(),
        /// `openai`: stop before the cost goes above; 0 = no cap.
        pub max_cost_usd: f64 = 0.0 => at_least(0.0).execution(),
        /// `openai`: USD per million prompt tokens.
        pub input_price: f64 = 0.0 => at_least(0.0).execution(),
        /// `openai`: USD per million completion tokens.
        pub output_price: f64 = 0.0 => at_least(0.0).execution(),
        /// Share of judgements that must be valid before a win rate is printed.
        pub min_coverage: f64 = 0.9 => ratio(),
    }
}

choice! {
    /// Who judges.
    pub enum Provider {
        /// A reward model of this pipeline scores both answers; offline.
        RewardModel = "reward-model",
        /// Any OpenAI-compatible chat endpoint.
        Openai = "openai",
    }
}
