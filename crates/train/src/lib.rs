//! Trainers: language modelling, supervised fine-tuning, reward models, Hydra-SFT and Hydra-PPO.
//!
//! A trainer takes a model, rows of token ids and the stage's own configuration, and tells a [`Recorder`]
//! how it goes. It knows nothing of stages, folders or databases. Everything random comes from
//! [`data::rng`], everything that is needed to go on bit for bit is in its checkpoints.

mod advantages;
mod batching;
mod checkpoint;
mod error;
mod kl;
mod lm;
mod losses;
mod optim;
mod pairs;
mod ppo;
mod recorder;
mod schedule;
mod score;
mod supervised;

pub use advantages::{Moments, explained_variance, gae, moments, token_rewards, whiten};
pub use error::{Class, TrainError};
pub use kl::{Controller, estimate};
pub use lm::{TrainedLm, pretrain, sft};
pub use losses::{pair_loss, policy_loss, softplus, value_loss};
pub use optim::{AdamW, AdamWConfig, Gradients};
pub use pairs::{HydraSftResult, TrainedReward, hydra_sft, reward};
pub use ppo::{PpoResult, Probe, SpecialTokens, ppo};
pub use recorder::{Outcome, Recorder};
pub use schedule::Schedule;
pub use score::score;
