//! Scores answers: ROUGE, judged win rates with intervals, reward-model statistics, and the judges themselves.
//!
//! Everything here works on answers joined by prompt id and on plain numbers: no tensors, no stages, no
//! store. What produces the answers and where the results go is the business of `stages`.

pub mod answers;
pub mod bootstrap;
pub mod error;
pub mod judge;
pub mod judgement;
pub mod reward_stats;
mod rng;
pub mod rouge;
pub mod summary;
pub mod winrate;

pub use answers::{Answer, AnswerRow};
pub use error::EvalError;
pub use judgement::{Journal, Judgement, Key, Order, State, Verdict};
pub use summary::Interval;
pub use winrate::Tournament;
