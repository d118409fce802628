//! One file per stage kind, named like the kind.

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
mod training;

use serde::{Deserialize, Serialize};

pub use generate::Generate;
pub use hydra_sft::HydraSft;
pub use judge::{Judge, Provider};
pub use ppo::{KlEstimator, Method, Ppo};
pub use prepare::{Format, OnBadRow, Prepare, Source};
pub use pretrain::{Architecture, Pretrain};
pub use report::Report;
pub use reward::{Reward, RewardLoss};
pub use reward_eval::RewardEval;
pub use rouge::Rouge;
pub use sft::Sft;
pub use training::{LrScheduler, Training};

/// A stage of any kind; `kind` in the TOML selects the variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum StageConfig {
    Pretrain(Pretrain),
    Prepare(Prepare),
    Sft(Sft),
    Reward(Reward),
    HydraSft(HydraSft),
    RewardEval(RewardEval),
    Ppo(Ppo),
    Generate(Generate),
    Judge(Judge),
    Rouge(Rouge),
    Report(Report),
}
