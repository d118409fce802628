//! Hydra-PPO: actor and critic adapters on one frozen base; adapter off is the reference and the reward
//! model. After N. Stiennon et al. (arXiv 2009.01325), DeepSpeed-Chat, and Santacroce et al. (2309.00754).

mod checks;
mod metrics;
mod policy;
mod rollout;
mod update;

use data::Prompt;
use model::{Head, HydraBackend, Llama, Lora, Parameters};
use serde::Serialize;
use spec::stage::{Method, Ppo};

pub use checks::Probe;

use crate::batching::Stream;
use crate::checkpoint::{Checkpoint, Identity};
use crate::lm::check_rows;
use crate::{Controller, Outcome, Recorder, Schedule, TrainError};
use metrics::Metrics;
use policy::Policy;
use update::Optimizers;

/// Token ids that end and fill rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Ends a response.
    pub eos: u32,
    /// Fills rows.
    pub pad: u32,
}

/// What PPO trained, and its numbers.
#[derive(Debug, Clone)]
pub struct PpoResult<B: HydraBackend> {
    /// The policy's adapter.
    pub actor: Lora<B>,
    /// The value model's adapter.
    pub critic: Lora<B>,
    /// The value model's head.
    pub value_head: Head<B>,
    /// Numbers for the stage's summary.
    pub summary: PpoSummary,
}

/// The summary of a PPO stage. Rewards are the reward model's scores before clipping, KL is in nats per
/// response; `first` is the first update, `last` the mean over the last tenth of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PpoSummary {
    /// Updates done.
    pub updates: u64,
    /// Responses sampled.
    pub episodes: usize,
    /// Trained parameters: adapters and, with `train_value_head`, the value head.
    pub trainable_parameters: usize,
    /// Parameters of the frozen base.
    pub frozen_parameters: usize,
    /// Mean score of the first update's responses.
    pub reward_first: f64,
    /// Mean score of the last responses.
    pub reward_last: f64,
    /// Mean KL to the reference of the last responses.
    pub kl_last: f64,
    /// Highest mean KL of an update.
    pub kl_max: f64,
    /// Share of the last responses that ended by themselves.
    pub finished_last: f64,
    /// Mean length of the last responses in tokens.
    pub length_last: f64,
}

/// Trains adapters on `decoder` against `reward_head`.
///
/// # Errors
/// A configuration that cannot work, a self-check that fails, a loss that is not finite, a KL above
/// `max_kl`, or a checkpoint that belongs to another run.
pub fn ppo<B: HydraBackend>(
    config: &Ppo,
    lora: &spec::Lora,
    prompts: &[Prompt],
    decoder: Llama<B>,
    reward_head: Head<B>,
    probe: Option<Probe>,
    tokens: SpecialTokens,
    seed: u64,
    recorder: &mut dyn Recorder,
) -> Result<Outcome<PpoResult<B>>, TrainError> {
    check_config(config, prompts, &decoder)?;
    let device = decoder.device();
    let base = decoder.hash();
    let ids = prompts.iter().map(|prompt| prompt.prompt_ids.as_slice());
    let model_hash = format!("{base} {} {lora:?} {tokens:?}", reward_head.hash());
    let identity = Identity::new("ppo", config, ids, model_hash, seed);

    let mut policy = Policy::new(config, lora, decoder, reward_head, seed)?;
    let mut optimizers = Optimizers::new(config);
    let mut controller = Controller::new(config);
    let mut history = Metrics::default();
    let total = (config.total_episodes as u64).div_ceil(config.batch_size as u64);
    let schedule = Schedule::new(config.lr_scheduler_type, config.warmup_steps, total);
    let mut stream = Stream::new(prompts.len(), seed);
    let mut start = 0;
    if let Some(dir) = recorder.resume_from().map(ToOwned::to_owned) {
        let mut saved = Checkpoint::read(&dir, &identity, &device)?;
        start = saved.step;
        policy.restore(&mut saved, &dir)?;
        optimizers.restore(&mut saved, &dir)?;
        controller.restore(saved.number("kl_coef", &dir)?);
        history = Metrics::restore(&saved, &dir)?;
    }
    let checks = checks::Checks::new(&policy, &prompts[0].prompt_ids, base);
    checks.before(&policy, probe.as_ref(), tokens)?;

    for update in start..total {
        // rollout → score → advantages
        let chosen: Vec<&Prompt> =
            stream.step(update, config.batch_size).into_iter().map(|at| &prompts[at]).collect();
        let mut batch = rollout::generate(config, &policy, &chosen, tokens, seed, update);
        rollout::score(config, &policy, &mut batch, tokens);
        rollout::advantages(config, controller.coef(), &mut batch);
        if update == 0 {
            checks::initial_kl(&batch)?;
        }

        // epochs → minibatches, each one step of both optimisers
        let factor = schedule.factor(update);
        let mut sums = metrics::UpdateSums::default();
        for epoch in 0..config.num_ppo_epochs {
            let order = data::order(batch.len(), seed, update * config.num_ppo_epochs as u64 + epoch as u64);
            for minibatch in order.chunks(batch.len().div_ceil(config.num_mini_batches)) {
                let rows: Vec<&rollout::Rollout> = minibatch.iter().map(|&row| &batch[row]).collect();
                let statistics =
                    update::step(config, &mut policy, &mut optimizers, &rows, factor, tokens, update)?;
                if update == 0 && sums.is_empty() {
                    checks::initial_ratio(&statistics)?;
                }
                sums.add(&statistics);
            }
        }
        if update == 0 {
            checks.after_first_update(&policy, config)?;
        }

        let done = update + 1;
        let row = history.record(config, &batch, &sums, controller.coef(), factor);
        drop(batch);
        controller.observe(row.kl, config.batch_size);
        recorder.metrics(done, &row.values);
        let message = format!("reward {:.3}, KL {:.3}", row.score, row.kl);
        recorder.progress(done, total, "update", &message);
        if config.max_kl > 0.0 && row.kl > config.max_kl {
            return Err(TrainError::KlGate { kl: row.kl, max_kl: config.max_kl, update: done });
        }
        let stop = recorder.should_stop() && done < total;
        if stop || (done % config.save_steps == 0 && done < total) {
            let mut checkpoint = Checkpoint::new(done);
            policy.save(&mut checkpoint);
            optimizers.save(&mut checkpoint);
            history.save(&mut checkpoint);
            checkpoint.numbers.insert("kl_coef".into(), controller.coef());
            recorder.checkpoint(done, &mut |dir| checkpoint.write(dir, &identity))?;
        }
        if stop {
            return Ok(Outcome::Interrupted { step: done });
        }
    }
    checks.at_end(&policy)?;
    let summary = history.summary(&policy, config);
    let model::Hydra { actor, critic, value_head, .. } = policy.into_hydra();
    Ok(Outcome::Finished(PpoResult { actor, critic, value_head, summary }))
}

fn check_config<B: HydraBackend>(
    config: &Ppo,
    prompts: &[Prompt],
    decoder: &Llama<B>,
) -> Result<(), TrainError> {
    let method = match config.method {
        Method::Hydra => None,
        Method::JHydra => Some("j-hydra"),
        Method::Full => Some("full"),
        Method::Lora => Some("lora"),
        Method::Dlora => Some("dlora"),
    };
    if let Some(method) = method {
        return Err(TrainError::Unsupported { method });
    }
    if prompts.is_empty() {
        return Err(TrainError::Empty { what: "no prompt".into() });
    }
    if config.num_mini_batches > config.batch_size {
        let problem =
            format!("is {}, but an update has {} rollouts", config.num_mini_batches, config.batch_size);
        return Err(TrainError::Config { key: "num_mini_batches", problem });
    }
    check_rows(prompts.iter().map(|prompt| (prompt.id.clone(), prompt.prompt_ids.as_slice())), decoder)?;
    let positions = decoder.config().max_position_embeddings;
    for prompt in prompts {
        let length = prompt.prompt_ids.len() + config.response_length;
        if length > positions {
            return Err(TrainError::TooLong { id: prompt.id.clone(), length, positions });
        }
    }
    Ok(())
}
