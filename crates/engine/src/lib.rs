//! Makes a plan happen: the dispatcher, executors, retries, cancellation, events. Knows no training.
//!
//! [`Engine`] runs plans and goes on with runs; [`decisions`] and [`view`] only look. How it talks to the
//! worker processes, which the crate `stages` implements, is in [`protocol`].

mod attempt;
mod context;
mod control;
pub mod difference;
mod dispatch;
mod engine;
mod error;
pub mod executor;
mod follow;
mod log;
mod options;
mod past;
pub mod protocol;
mod requests;
mod schedule;
pub mod signals;
mod slots;
mod stage;
mod tail;
mod update;
mod verdict;
pub mod view;

pub use control::{Cause, Control, Level};
pub use engine::{Engine, Resume, decisions};
pub use error::EngineError;
pub use options::{Options, Retry};
pub use past::Hasher;
pub use tail::Tail;
pub use update::{Failure, RunOutcome, StageOutcome, Update, Updates};
