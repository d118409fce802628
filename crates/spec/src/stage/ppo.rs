//! `kind = "ppo"`: reinforcement learning from the reward model. Keys are TRL's.

use serde::{Deserialize, Serialize};

use super::LrScheduler;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ppo {
    pub method: Method,
    /// A `hydra-sft` stage.
    pub model: String,
    /// The `prepare` stage.
    pub data: String,
    pub split: String,
    /// Rollouts over the whole run; one update uses `batch_size` of them.
    pub total_episodes: usize,
    /// Rollouts per update.
    pub batch_size: usize,
    pub num_mini_batches: usize,
    pub num_ppo_epochs: usize,
    /// Rows per forward-backward pass; results do not depend on it beyond rounding.
    pub per_device_train_batch_size: usize,
    /// Most tokens of a response.
    pub response_length: usize,
    pub temperature: f64,
    /// Weight of the per-token KL penalty, per nat.
    pub kl_coef: f64,
    pub kl_estimator: KlEstimator,
    /// The stage is refused when the mean KL to the reference (nats per response) goes above; 0 = no bound.
    pub max_kl: f64,
    pub cliprange: f64,
    pub cliprange_value: f64,
    /// Weight of the value loss.
    pub vf_coef: f64,
    /// Discount per token.
    pub gamma: f64,
    /// GAE's λ.
    pub lam: f64,
    pub whiten_advantages: bool,
    pub whiten_rewards: bool,
    /// Scores are clipped to ± this; 0 = off.
    pub reward_clip: f64,
    /// Subtracted from the score of a response without EOS.
    pub missing_eos_penalty: f64,
    /// Whether the critic's copy of the reward head is trained along with its adapter.
    pub train_value_head: bool,
    pub actor_learning_rate: f64,
    pub critic_learning_rate: f64,
    pub lr_scheduler_type: LrScheduler,
    /// Updates over which the rates rise from 0.
    pub warmup_steps: u64,
    pub adam_beta1: f64,
    pub adam_beta2: f64,
    pub adam_epsilon: f64,
    pub weight_decay: f64,
    /// Clip each optimiser's global gradient norm to this; 0 = off.
    pub max_grad_norm: f64,
    /// Checkpoint every so many updates. Execution-only.
    pub save_steps: u64,
    /// Finished checkpoints kept. Execution-only.
    pub save_total_limit: usize,
}

impl Default for Ppo {
    fn default() -> Self {
        Self {
            method: Method::Hydra,
            model: String::new(),
            data: String::new(),
            split: "ppo".into(),
            total_episodes: 10_000,
            batch_size: 64,
            num_mini_batches: 1,
            num_ppo_epochs: 1,
            per_device_train_batch_size: 8,
            response_length: 53,
            temperature: 1.0,
            kl_coef: 0.02,
            kl_estimator: KlEstimator::K1,
            max_kl: 0.0,
            cliprange: 0.2,
            cliprange_value: 0.2,
            vf_coef: 1.0,
            gamma: 1.0,
            lam: 0.95,
            whiten_advantages: false,
            whiten_rewards: false,
            reward_clip: 5.0,
            missing_eos_penalty: 0.0,
            train_value_head: true,
            actor_learning_rate: 5e-4,
            critic_learning_rate: 5e-5,
            lr_scheduler_type: LrScheduler::Cosine,
            warmup_steps: 0,
            adam_beta1: 0.9,
            adam_beta2: 0.95,
            adam_epsilon: 1e-8,
            weight_decay: 0.0,
            max_grad_norm: 1.0,
            save_steps: 20,
            save_total_limit: 2,
        }
    }
}

/// The five ways of arXiv 2309.00754 to hold four models; see docs/algorithms/ppo.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    Full,
    Lora,
    Dlora,
    JHydra,
    Hydra,
}

/// Estimators of KL(actor ‖ ref) per token, after Schulman, "Approximating KL divergence" (2020).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KlEstimator {
    /// log p − log ref
    K1,
    /// ½ (log p − log ref)²
    K2,
    /// ref/p − 1 + log p − log ref
    K3,
}
