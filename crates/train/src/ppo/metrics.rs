//! What is logged, under TRL's names, and what the summary is made of.

use std::path::Path;

use model::{HydraBackend, Parameters};
use spec::stage::Ppo;

use super::PpoSummary;
use super::policy::Policy;
use super::rollout::Rollout;
use super::update::Statistics;
use crate::checkpoint::Checkpoint;
use crate::{TrainError, explained_variance};

/// Sums over the action tokens of all minibatches of an update.
#[derive(Debug, Clone, Default)]
pub struct UpdateSums {
    tokens: f64,
    steps: f64,
    policy_loss: f64,
    policy_clipped: f64,
    value_loss: f64,
    value_clipped: f64,
    approxkl: f64,
    ratio: f64,
    actor_grad_norm: f64,
    critic_grad_norm: f64,
}

impl UpdateSums {
    /// Whether no step was added yet.
    pub fn is_empty(&self) -> bool {
        self.steps == 0.0
    }

    /// Adds one step.
    pub fn add(&mut self, step: &Statistics) {
        let sum = |values: &[f32]| values.iter().map(|value| f64::from(*value)).sum::<f64>();
        let count = |flags: &[bool]| flags.iter().filter(|flag| **flag).count() as f64;
        self.tokens += step.log_ratios.len() as f64;
        self.steps += 1.0;
        self.policy_loss += sum(&step.policy_losses);
        self.policy_clipped += count(&step.policy_clipped);
        self.value_loss += sum(&step.value_losses);
        self.value_clipped += count(&step.value_clipped);
        for log_ratio in step.log_ratios.iter().map(|value| f64::from(*value)) {
            self.approxkl += 0.5 * log_ratio * log_ratio;
            self.ratio += log_ratio.exp();
        }
        self.actor_grad_norm += step.actor_grad_norm;
        self.critic_grad_norm += step.critic_grad_norm;
    }
}

/// The numbers of one update.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Mean score of the reward model.
    pub score: f64,
    /// Mean KL to the reference by the chosen estimator, nats per response.
    pub kl: f64,
    /// By name.
    pub values: Vec<(&'static str, f64)>,
}

/// Per update: score, KL, share finished, length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics(Vec<[f64; 4]>);

impl Metrics {
    /// Reduces an update to its metrics.
    pub fn record(
        &mut self,
        config: &Ppo,
        batch: &[Rollout],
        sums: &UpdateSums,
        kl_coef: f64,
        rate: f64,
    ) -> Row {
        let responses = batch.len() as f64;
        let mean = |value: &dyn Fn(&Rollout) -> f64| batch.iter().map(value).sum::<f64>() / responses;
        let total = |values: &[f32]| values.iter().map(|value| f64::from(*value)).sum::<f64>();
        let score = mean(&|rollout| f64::from(rollout.score));
        let kl = mean(&|rollout| total(&rollout.kl));
        let finished = mean(&|rollout| if rollout.finished { 1.0 } else { 0.0 });
        let length = mean(&|rollout| rollout.len() as f64);
        let penalty = -kl_coef * kl;
        let (returns, values): (Vec<f32>, Vec<f32>) =
            batch.iter().flat_map(|r| r.returns.iter().copied().zip(r.values.iter().copied())).unzip();
        self.0.push([score, kl, finished, length]);
        let values = vec![
            ("objective/kl", kl),
            ("objective/scores", score),
            ("objective/non_score_reward", penalty),
            ("objective/rlhf_reward", mean(&|rollout| f64::from(rollout.shaped_score)) + penalty),
            ("objective/entropy", -mean(&|rollout| total(&rollout.logprobs))),
            ("objective/kl_coef", kl_coef),
            ("policy/approxkl_avg", sums.approxkl / sums.tokens),
            ("policy/clipfrac_avg", sums.policy_clipped / sums.tokens),
            ("policy/grad_norm", sums.actor_grad_norm / sums.steps),
            ("loss/policy_avg", sums.policy_loss / sums.tokens),
            ("loss/value_avg", sums.value_loss / sums.tokens),
            ("val/ratio", sums.ratio / sums.tokens),
            ("val/clipfrac_avg", sums.value_clipped / sums.tokens),
            ("val/grad_norm", sums.critic_grad_norm / sums.steps),
            ("val/explained_variance", explained_variance(&returns, &values)),
            ("response/length", length),
            ("response/tokens", length * responses),
            ("response/truncated", 1.0 - finished),
            ("lr/actor", config.actor_learning_rate * rate),
            ("lr/critic", config.critic_learning_rate * rate),
        ];
        Row { score, kl, values }
    }

    /// Adds the history to a checkpoint.
    pub fn save<B: HydraBackend>(&self, checkpoint: &mut Checkpoint<B>) {
        for (update, row) in self.0.iter().enumerate() {
            for (field, value) in row.iter().enumerate() {
                checkpoint.numbers.insert(format!("history.{update}.{field}"), *value);
            }
        }
    }

    /// Takes up what [`Metrics::save`] put in.
    pub fn restore<B: HydraBackend>(checkpoint: &Checkpoint<B>, dir: &Path) -> Result<Self, TrainError> {
        let number = |update, field| checkpoint.number(&format!("history.{update}.{field}"), dir);
        let row =
            |update| Ok([number(update, 0)?, number(update, 1)?, number(update, 2)?, number(update, 3)?]);
        (0..checkpoint.step).map(row).collect::<Result<_, _>>().map(Self)
    }

    /// The stage's summary.
    pub fn summary<B: HydraBackend>(&self, policy: &Policy<B>, config: &Ppo) -> PpoSummary {
        let updates = self.0.len();
        let tail = &self.0[updates - updates.div_ceil(10).min(updates)..];
        let last = |field: usize| tail.iter().map(|row| row[field]).sum::<f64>() / tail.len().max(1) as f64;
        let (actor, critic) = policy.trainable();
        PpoSummary {
            updates: updates as u64,
            episodes: updates * config.batch_size,
            trainable_parameters: actor + critic,
            frozen_parameters: policy.hydra().decoder.count(),
            reward_first: self.0.first().map_or(0.0, |row| row[0]),
            reward_last: last(0),
            kl_last: last(1),
            kl_max: self.0.iter().map(|row| row[1]).fold(0.0, f64::max),
            finished_last: last(2),
            length_last: last(3),
        }
    }
}
