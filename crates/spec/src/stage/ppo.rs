//! `kind = "ppo"`: reinforcement learning from the reward model. Keys are TRL's.

use super::LrScheduler;
use crate::section::{choice, section};

section! {
    /// `kind = "ppo"`
    pub struct Ppo {
        /// How actor, reference, critic and reward model are held.
        pub method: Method = Method::Hydra,
        /// A `hydra-sft` stage.
        pub model: String = String::new() => stage(&["hydra-sft"]).required(),
        /// The `prepare` stage.
        pub data: String = String::new() => stage(&["prepare"]).required(),
        /// The split whose prompts are answered.
        pub split: String = "ppo".into() => split(),
        /// Rollouts over the whole run; one update uses `batch_size` of them.
        pub total_episodes: usize = 10_000 => at_least(1.0),
        /// Rollouts per update.
        pub batch_size: usize = 64 => at_least(1.0),
        /// Optimiser steps per pass over an update's rollouts.
        pub num_mini_batches: usize = 1 => at_least(1.0),
        /// Passes over an update's rollouts.
        pub num_ppo_epochs: usize = 1 => at_least(1.0),
        /// Rows per forward-backward pass; results do not depend on it beyond rounding.
        pub per_device_train_batch_size: usize = 8 => at_least(1.0),
        /// Most tokens of a response.
        pub response_length: usize = 53 => at_least(1.0),
        /// Of the rollouts; log-probabilities are taken at it too.
        pub temperature: f64 = 1.0 => above(0.0),
        /// Weight of the per-token KL penalty, per nat.
        pub kl_coef: f64 = 0.02 => at_least(0.0),
        /// Steer the weight to `kl_target`, beginning at `kl_coef`.
        pub adaptive_kl: bool = false,
        /// `adaptive_kl`: wanted KL to the reference, nats per response.
        pub kl_target: f64 = 6.0 => above(0.0),
        /// `adaptive_kl`: responses over which the weight reacts.
        pub kl_horizon: f64 = 10_000.0 => above(0.0),
        /// Estimator of the KL penalty.
        pub kl_estimator: KlEstimator = KlEstimator::K1,
        /// The stage is refused when the mean KL to the reference (nats per response) goes above; 0 = no bound.
        pub max_kl: f64 = 0.0 => at_least(0.0),
        /// Clip range of the probability ratio.
        pub cliprange: f64 = 0.2 => above(0.0),
        /// Clip range of the value.
        pub cliprange_value: f64 = 0.2 => above(0.0),
        /// Weight of the value loss.
        pub vf_coef: f64 = 1.0 => at_least(0.0),
        /// Discount per token.
        pub gamma: f64 = 1.0 => ratio(),
        /// GAE's λ.
        pub lam: f64 = 0.95 => ratio(),
        /// Bring advantages to mean 0 and variance 1.
        pub whiten_advantages: bool = false,
        /// Bring rewards to variance 1.
        pub whiten_rewards: bool = false,
        /// Scores are clipped to ± this; 0 = off.
        pub reward_clip: f64 = 5.0 => at_least(0.0),
        /// Subtracted from the score of a response without EOS.
        pub missing_eos_penalty: f64 = 0.0 => at_least(0.0),
        /// Whether the critic's copy of the reward head is trained along with its adapter.
        pub train_value_head: bool = true,
        /// Highest rate of the actor's adapter.
        pub actor_learning_rate: f64 = 5e-4 => at_least(0.0),
        /// Highest rate of the critic's adapter.
        pub critic_learning_rate: f64 = 5e-5 => at_least(0.0),
        /// How the rates change after the warm-up.
        pub lr_scheduler_type: LrScheduler = LrScheduler::Cosine,
        /// Updates over which the rates rise from 0.
        pub warmup_steps: u64 = 0,
        /// Decay of the first moment.
        pub adam_beta1: f64 = 0.9 => at_least(0.0).below(1.0),
        /// Decay of the second moment.
        pub adam_beta2: f64 = 0.95 => at_least(0.0).below(1.0),
        /// Added to the root of the second moment.
        pub adam_epsilon: f64 = 1e-8 => above(0.0),
        /// Decoupled weight decay (AdamW).
        pub weight_decay: f64 = 0.0 => at_least(0.0),
        /// Clip each optimiser's global gradient norm to this; 0 = off.
        pub max_grad_norm: f64 = 1.0 => at_least(0.0),
        /// Checkpoint every so many updates.
        pub save_steps: u64 = 20 => at_least(1.0).execution(),
        /// Finished checkpoints kept.
        pub save_total_limit: usize = 2 => at_least(1.0).execution(),
    }
}

choice! {
    /// The five ways of arXiv 2309.00754 to hold four models; see docs/algorithms/ppo.md.
    pub enum Method {
        /// Four whole models.
        Full = "full",
        /// Adapters on actor and critic, each on a base of its own.
        Lora = "lora",
        /// Actor and reference share a base, critic and reward model another.
        Dlora = "dlora",
        /// One base, one adapter, two heads.
        JHydra = "j-hydra",
        /// One base, one adapter for the actor and one for the critic.
        Hydra = "hydra",
    }
}

choice! {
    /// Estimators of KL(actor ‖ ref) per token, after Schulman, "Approximating KL divergence" (2020).
    pub enum KlEstimator {
        /// log p − log ref
        K1 = "k1",
        /// ½ (log p − log ref)²
        K2 = "k2",
        /// ref/p − 1 + log p − log ref
        K3 = "k3",
    }
}
