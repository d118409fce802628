//! `kind = "judge"`: pairwise verdicts over the answers of a `generate` stage.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Judge {
    /// The `generate` stage.
    pub completions: String,
    pub provider: Provider,
    /// `reward-model`: the `reward` or `hydra-sft` stage that scores. `openai`: the endpoint's model name.
    pub model: String,
    /// `openai`: endpoint up to and including `/v1`.
    pub base_url: String,
    /// `openai`: environment variable that holds the key; empty = send none.
    pub api_key_env: String,
    /// `openai`: jinja prompt file; empty = the built-in `evaluations/prompts/pairwise.jinja`.
    pub prompt: String,
    /// `openai`: requests under way at once. Execution-only.
    pub max_concurrency: usize,
    /// `openai`: seconds before a request is given up. Execution-only.
    pub timeout: f64,
    /// `openai`: attempts per judgement. Execution-only.
    pub max_attempts: usize,
    /// `openai`: stop before the cost goes above; 0 = no cap. Execution-only.
    pub max_cost_usd: f64,
    /// `openai`: USD per million prompt tokens. Execution-only.
    pub input_price: f64,
    /// `openai`: USD per million completion tokens. Execution-only.
    pub output_price: f64,
    /// Share of judgements that must be valid before a win rate is printed.
    pub min_coverage: f64,
}

impl Default for Judge {
    fn default() -> Self {
        Self {
            completions: String::new(),
            provider: Provider::RewardModel,
            model: String::new(),
            base_url: "https://api.openai.com/v1".into(),
            api_key_env: "OPENAI_API_KEY".into(),
            prompt: String::new(),
            max_concurrency: 8,
            timeout: 60.0,
            max_attempts: 5,
            max_cost_usd: 0.0,
            input_price: 0.0,
            output_price: 0.0,
            min_coverage: 0.9,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// A reward model of this pipeline scores both answers; offline.
    RewardModel,
    /// Any OpenAI-compatible chat endpoint.
    Openai,
}
