//! One optimiser step of actor and critic on one minibatch.

use std::path::Path;

use burn::backend::Autodiff;
use model::{HydraBackend, Parameters, TokenBatch, gradients};
use spec::stage::Ppo;

use super::SpecialTokens;
use super::policy::{Policy, flatten};
use super::rollout::{Rollout, actions, before_actions};
use crate::batching::{numbers, pick, tensor};
use crate::checkpoint::Checkpoint;
use crate::optim::{AdamW, AdamWConfig, Gradients};
use crate::supervised::finite;
use crate::{TrainError, policy_loss, value_loss};

/// One optimiser each, so that actor and critic have their own rates, norms and moments.
#[derive(Debug, Clone)]
pub struct Optimizers<B: HydraBackend> {
    actor: AdamW<B>,
    critic: AdamW<B>,
}

impl<B: HydraBackend> Optimizers<B> {
    pub fn new(config: &Ppo) -> Self {
        let adamw = AdamWConfig {
            beta1: config.adam_beta1,
            beta2: config.adam_beta2,
            epsilon: config.adam_epsilon,
            weight_decay: config.weight_decay,
        };
        Self { actor: AdamW::new(adamw), critic: AdamW::new(adamw) }
    }

    pub fn save(&self, checkpoint: &mut Checkpoint<B>) {
        let (step, actor) = self.actor.state();
        checkpoint.numbers.insert("optimizer_step".into(), step as f64);
        checkpoint.extend("actor_optimizer.", actor);
        checkpoint.extend("critic_optimizer.", self.critic.state().1);
    }

    pub fn restore(&mut self, checkpoint: &mut Checkpoint<B>, dir: &Path) -> Result<(), TrainError> {
        let step = checkpoint.number("optimizer_step", dir)? as u64;
        self.actor.restore(step, &mut checkpoint.take("actor_optimizer."));
        self.critic.restore(step, &mut checkpoint.take("critic_optimizer."));
        Ok(())
    }
}

/// What a step computed, per action token of the minibatch, before the parameters changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Statistics {
    /// log π(a) − log π_old(a)
    pub log_ratios: Vec<f32>,
    /// Clipped policy loss.
    pub policy_losses: Vec<f32>,
    /// Whether the clipped branch was the larger one.
    pub policy_clipped: Vec<bool>,
    /// Clipped value loss, ½ included.
    pub value_losses: Vec<f32>,
    /// Whether the clipped branch was the larger one.
    pub value_clipped: Vec<bool>,
    /// Global gradient norms before clipping.
    pub actor_grad_norm: f64,
    pub critic_grad_norm: f64,
}

/// Losses are means over the minibatch's action tokens; micro-batches only split the work.
pub fn step<B: HydraBackend>(
    config: &Ppo,
    policy: &mut Policy<B>,
    optimizers: &mut Optimizers<B>,
    rows: &[&Rollout],
    rate: f64,
    tokens: SpecialTokens,
    update: u64,
) -> Result<Statistics, TrainError> {
    let total: usize = rows.iter().map(|rollout| rollout.len()).sum();
    let mut statistics = Statistics::default();
    let (mut actor_gradients, mut critic_gradients) = (Gradients::default(), Gradients::default());
    for micro in rows.chunks(config.per_device_train_batch_size) {
        let ids: Vec<&[u32]> = micro.iter().map(|rollout| rollout.ids.as_slice()).collect();
        let batch = TokenBatch::right_padded(&ids, tokens.pad);
        actor_gradients.add(actor_pass(config, policy, &batch, micro, total, &mut statistics));
        critic_gradients.add(critic_pass(config, policy, &batch, micro, total, &mut statistics));
    }
    statistics.actor_grad_norm = actor_gradients.clip(config.max_grad_norm);
    statistics.critic_grad_norm = critic_gradients.clip(config.max_grad_norm);
    let mean = |losses: &[f32]| losses.iter().copied().map(f64::from).sum::<f64>() / total as f64;
    finite("policy loss", update + 1, mean(&statistics.policy_losses))?;
    finite("value loss", update + 1, mean(&statistics.value_losses))?;
    finite("gradient norm of the actor", update + 1, statistics.actor_grad_norm)?;
    finite("gradient norm of the critic", update + 1, statistics.critic_grad_norm)?;

    let actor = &policy.hydra().actor;
    let actor = optimizers.actor.step(actor, &actor_gradients, config.actor_learning_rate * rate);
    let critic =
        optimizers.critic.step(&policy.critic(), &critic_gradients, config.critic_learning_rate * rate);
    policy.set_actor(actor);
    policy.set_critic(critic);
    Ok(statistics)
}

/// One per-token field of all rows, one after the other.
fn flat(rows: &[&Rollout], field: impl Fn(&Rollout) -> &Vec<f32>) -> Vec<f32> {
    rows.iter().flat_map(|rollout| field(rollout).iter().copied()).collect()
}

type Named<B> = std::collections::BTreeMap<String, burn::tensor::Tensor<B, 2>>;

fn actor_pass<B: HydraBackend>(
    config: &Ppo,
    policy: &Policy<B>,
    batch: &TokenBatch,
    rows: &[&Rollout],
    total: usize,
    statistics: &mut Statistics,
) -> Named<B> {
    let adapter = policy.hydra().actor.tracked(|_| true);
    let hidden = flatten(policy.frozen().hidden(batch, Some(&adapter)));
    let device = hidden.device();
    let chosen = pick(hidden, &before_actions(batch, rows));
    let new = policy.frozen().logprobs(chosen, &actions(rows), config.temperature);
    let (old, advantages) = (flat(rows, |r| &r.logprobs), flat(rows, |r| &r.advantages));
    let constant = |values: &[f32]| tensor::<Autodiff<B>>(values.to_vec(), &device);
    let losses = policy_loss(new.clone(), constant(&old), constant(&advantages), config.cliprange);

    let log_ratios: Vec<f32> = numbers(new.inner()).iter().zip(&old).map(|(new, old)| new - old).collect();
    let clipped = log_ratios.iter().zip(&advantages).map(|(log_ratio, advantage)| {
        let (ratio, range) = (log_ratio.exp(), config.cliprange as f32);
        -advantage * ratio.clamp(1.0 - range, 1.0 + range) > -advantage * ratio
    });
    statistics.policy_clipped.extend(clipped);
    statistics.log_ratios.extend(log_ratios);
    statistics.policy_losses.extend(numbers(losses.clone().inner()));
    gradients(&adapter, &mut (losses.sum() / total as f64).backward())
}

fn critic_pass<B: HydraBackend>(
    config: &Ppo,
    policy: &Policy<B>,
    batch: &TokenBatch,
    rows: &[&Rollout],
    total: usize,
    statistics: &mut Statistics,
) -> Named<B> {
    let critic = policy.tracked_critic();
    let hidden = flatten(policy.frozen().hidden(batch, Some(&critic.adapter)));
    let device = hidden.device();
    let new = critic.head.forward(pick(hidden, &before_actions(batch, rows)));
    let (old, returns) = (flat(rows, |r| &r.values), flat(rows, |r| &r.returns));
    let constant = |values: &[f32]| tensor::<Autodiff<B>>(values.to_vec(), &device);
    let losses = value_loss(new.clone(), constant(&old), constant(&returns), config.cliprange_value);

    let range = config.cliprange_value as f32;
    let clipped = numbers(new.inner()).into_iter().zip(&old).zip(&returns).map(|((new, old), ret)| {
        let clipped = old + (new - old).clamp(-range, range);
        (clipped - ret).powi(2) > (new - ret).powi(2)
    });
    statistics.value_clipped.extend(clipped);
    statistics.value_losses.extend(numbers(losses.clone().inner()));
    gradients(&critic, &mut (losses.sum() * (config.vf_coef / total as f64)).backward())
}
