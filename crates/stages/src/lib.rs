//! One file per stage kind: turns a planned stage into calls on `data`, `train`, `eval` and `report`.
//!
//! [`run_worker`] is the whole life of a worker process: request in, result, events and manifest out. It
//! is generic over the tensor backend; crates `cpu` and `cuda` name one each.

mod checkpoint;
mod context;
mod error;
mod events;
mod models;
mod recorder;
mod result;
mod worker;

mod generate;
mod hydra_sft;
mod judge;
mod ppo;
mod prepare;
mod pretrain;
mod report;
mod reward;
mod reward_eval;
mod rouge;
mod sft;

pub use error::StageError;
pub use worker::{refuse, run_worker};
