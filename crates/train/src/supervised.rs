//! The one loop of every trainer that learns from fixed rows.

use std::collections::BTreeMap;

use burn::backend::Autodiff;
use burn::tensor::Tensor;
use model::{HydraBackend, Parameters, gradients};
use spec::stage::Training;

use crate::batching::{Stream, rows_per_step, total_steps};
use crate::checkpoint::{Checkpoint, Identity};
use crate::optim::{AdamW, AdamWConfig, Gradients};
use crate::{Outcome, Recorder, Schedule, TrainError};

/// Numbers of one step, summed over its micro-batches.
pub type Sums = BTreeMap<&'static str, f64>;

/// What is learnt: rows and their loss.
pub trait Task<B: HydraBackend> {
    /// The trained parameters.
    type Model: Parameters<B, On<B> = Self::Model>;

    /// Number of rows.
    fn rows(&self) -> usize;

    /// What the losses of a step's rows are divided by.
    fn totals(&self, rows: &[usize]) -> Totals;

    /// The micro-batch's share of the step's loss, a tensor of one number: summing the shares gives the
    /// step's loss whatever the micro-batches are. Adds the shares of its metrics to `sums`.
    fn loss(
        &self,
        model: &<Self::Model as Parameters<B>>::On<Autodiff<B>>,
        rows: &[usize],
        totals: Totals,
        sums: &mut Sums,
    ) -> Tensor<Autodiff<B>, 1>;
}

/// Normalisers of a whole optimiser step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Label tokens.
    pub tokens: usize,
    /// Rows (for pairs: pairs).
    pub rows: usize,
}

/// Trains to the end, or to a stop that was asked for.
pub fn fit<B, T>(
    task: &T,
    mut model: T::Model,
    training: &Training,
    identity: &Identity,
    device: &B::Device,
    recorder: &mut dyn Recorder,
) -> Result<Outcome<T::Model>, TrainError>
where
    B: HydraBackend,
    T: Task<B>,
{
    let per_step = rows_per_step(training);
    let total = total_steps(training, task.rows());
    let schedule = Schedule::new(training.lr_scheduler_type, training.warmup_steps, total);
    let mut stream = Stream::new(task.rows(), identity.seed);
    let mut optimizer = AdamW::new(adamw(training));
    let mut start = 0;
    if let Some(dir) = recorder.resume_from().map(ToOwned::to_owned) {
        let mut saved = Checkpoint::read(&dir, identity, device)?;
        start = saved.step;
        model = saved.model("model.", &model, &dir)?;
        optimizer.restore(saved.step, &mut saved.take("optimizer."));
    }

    for step in start..total {
        let rows = stream.step(step, per_step);
        let totals = task.totals(&rows);
        let mut sums = Sums::new();
        let mut summed = Gradients::default();
        for micro in rows.chunks(training.per_device_train_batch_size) {
            let tracked = model.tracked(|_| true);
            let loss = task.loss(&tracked, micro, totals, &mut sums);
            summed.add(gradients(&tracked, &mut loss.backward()));
        }
        let grad_norm = summed.clip(training.max_grad_norm);
        finite("loss", step + 1, sums.get("loss").copied().unwrap_or_default())?;
        finite("gradient norm", step + 1, grad_norm)?;
        let learning_rate = training.learning_rate * schedule.factor(step);
        model = optimizer.step(&model, &summed, learning_rate);

        let done = step + 1;
        let epoch = done as f64 * per_step as f64 / task.rows() as f64;
        let mut metrics: Vec<(&str, f64)> = sums.iter().map(|(name, value)| (*name, *value)).collect();
        metrics.extend([("grad_norm", grad_norm), ("learning_rate", learning_rate), ("epoch", epoch)]);
        if totals.tokens > 0 {
            metrics.push(("tokens", totals.tokens as f64));
        }
        recorder.metrics(done, &metrics);
        recorder.progress(done, total, "step", &format!("loss {:.4}", sums["loss"]));
        let stop = recorder.should_stop() && done < total;
        if stop || (done % training.save_steps == 0 && done < total) {
            let mut checkpoint = Checkpoint::new(done);
            checkpoint.put("model.", &model);
            checkpoint.extend("optimizer.", optimizer.state().1);
            recorder.checkpoint(done, &mut |dir| checkpoint.write(dir, identity))?;
        }
        if stop {
            return Ok(Outcome::Interrupted { step: done });
        }
    }
    Ok(Outcome::Finished(model))
}

fn adamw(training: &Training) -> AdamWConfig {
    AdamWConfig {
        beta1: training.adam_beta1,
        beta2: training.adam_beta2,
        epsilon: training.adam_epsilon,
        weight_decay: training.weight_decay,
    }
}

/// Refuses a number that would make everything after it meaningless.
pub fn finite(what: &str, step: u64, value: f64) -> Result<(), TrainError> {
    if value.is_finite() { Ok(()) } else { Err(TrainError::NonFinite { what: what.into(), step, value }) }
}
