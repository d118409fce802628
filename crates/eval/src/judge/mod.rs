//! Judges: who says which of two answers is better.
//!
//! [`reward_model`] compares scores and needs no network; [`openai`] asks any OpenAI-compatible chat
//! endpoint. Both turn a [`Request`] into a [`crate::Judgement`].

mod backoff;
mod endpoint;
pub mod openai;
mod parse;
pub mod prompt;
mod protocol;
pub mod reward_model;

pub use backoff::Backoff;
pub use openai::{OpenAi, Outcome, Sink};
pub use parse::{Parsed, parse};
pub use prompt::Template;

use crate::judgement::{Judgement, Key, State};

/// Two answers to compare. `answer_a` is `key.model_a`'s, whatever order they are shown in.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub key: Key,
    pub prompt: String,
    pub answer_a: String,
    pub answer_b: String,
}

impl Request {
    /// A judgement of this request without verdict, scores or cost.
    pub(crate) fn judgement(&self, state: State) -> Judgement {
        Judgement {
            id: self.key.id.clone(),
            model_a: self.key.model_a.clone(),
            model_b: self.key.model_b.clone(),
            order: self.key.order,
            state,
            verdict: None,
            score_a: None,
            score_b: None,
            reason: None,
            request: String::new(),
            prompt_tokens: 0,
            completion_tokens: 0,
        }
    }
}
