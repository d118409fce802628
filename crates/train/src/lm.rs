//! Language modelling: `pretrain` on documents, `sft` on preferred responses.

use std::ops::Range;

use burn::backend::Autodiff;
use burn::tensor::Tensor;
use data::Pair;
use model::{HydraBackend, Llama, Parameters, TokenBatch};
use serde::Serialize;
use spec::Section;
use spec::stage::{Pretrain, Sft, Training};

use crate::batching::{numbers, pick};
use crate::checkpoint::Identity;
use crate::supervised::{Sums, Task, Totals, fit};
use crate::{Outcome, Recorder, TrainError};

/// Token ids of which those in `labels` are predicted from what is before them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// All ids, prompt first.
    pub ids: Vec<u32>,
    /// Index of the first label; at least 1, since nothing is before the first id.
    pub first_label: usize,
}

impl Row {
    /// Indices of the labels.
    fn labels(&self) -> Range<usize> {
        self.first_label..self.ids.len()
    }
}

/// The preferred response of a pair after its prompt.
pub fn chosen_row(pair: &Pair, train_on_prompt: bool) -> Row {
    let first_label = if train_on_prompt { 1 } else { pair.prompt_ids.len().max(1) };
    Row { ids: [pair.prompt_ids.as_slice(), &pair.chosen_ids].concat(), first_label }
}

/// A language model and what became of it.
#[derive(Debug, Clone)]
pub struct TrainedLm<B: HydraBackend> {
    /// The trained model.
    pub decoder: Llama<B>,
    /// Numbers for the stage's summary.
    pub summary: LmSummary,
}

/// The summary of a language-modelling stage. Losses are in nats per label token.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LmSummary {
    /// Trained parameters.
    pub parameters: usize,
    /// Rows trained on.
    pub rows: usize,
    /// Mean loss on the held-out rows before and after; absent without held-out rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out: Option<HeldOut>,
}

/// Held-out loss and perplexity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HeldOut {
    /// Nats per token before training.
    pub loss_before: f64,
    /// Nats per token after training.
    pub loss_after: f64,
    /// `exp(loss_before)`
    pub perplexity_before: f64,
    /// `exp(loss_after)`
    pub perplexity_after: f64,
}

impl HeldOut {
    /// From the two losses.
    pub fn new(loss_before: f64, loss_after: f64) -> Self {
        let (perplexity_before, perplexity_after) = (loss_before.exp(), loss_after.exp());
        Self { loss_before, loss_after, perplexity_before, perplexity_after }
    }
}

/// Trains on documents given as token ids, BOS and EOS included. A document of more than `max_length`
/// tokens becomes several rows.
pub fn pretrain<B: HydraBackend>(
    config: &Pretrain,
    documents: &[Vec<u32>],
    held_out: &[Vec<u32>],
    decoder: Llama<B>,
    pad: u32,
    seed: u64,
    recorder: &mut dyn Recorder,
) -> Result<Outcome<TrainedLm<B>>, TrainError> {
    let cut = |documents: &[Vec<u32>]| -> Vec<Row> {
        let pieces = documents.iter().flat_map(|ids| ids.chunks(config.max_length));
        pieces.filter(|ids| ids.len() > 1).map(|ids| Row { ids: ids.to_vec(), first_label: 1 }).collect()
    };
    let task = LmTask { rows: cut(documents), pad };
    train("pretrain", config, &config.training, task, &cut(held_out), decoder, seed, recorder)
}

/// Trains on the preferred responses of pairs.
pub fn sft<B: HydraBackend>(
    config: &Sft,
    pairs: &[Pair],
    decoder: Llama<B>,
    pad: u32,
    seed: u64,
    recorder: &mut dyn Recorder,
) -> Result<Outcome<TrainedLm<B>>, TrainError> {
    let rows = pairs.iter().map(|pair| chosen_row(pair, config.train_on_prompt)).collect();
    train("sft", config, &config.training, LmTask { rows, pad }, &[], decoder, seed, recorder)
}

fn train<B: HydraBackend>(
    trainer: &str,
    section: &dyn Section,
    training: &Training,
    task: LmTask,
    held_out: &[Row],
    decoder: Llama<B>,
    seed: u64,
    recorder: &mut dyn Recorder,
) -> Result<Outcome<TrainedLm<B>>, TrainError> {
    if task.rows.is_empty() {
        return Err(TrainError::Empty { what: "no row has two tokens".into() });
    }
    check_rows(numbered(task.rows.iter().map(|row| row.ids.as_slice())), &decoder)?;
    check_rows(numbered(held_out.iter().map(|row| row.ids.as_slice())), &decoder)?;
    let ids = task.rows.iter().map(|row| row.ids.as_slice());
    let identity = Identity::new(trainer, section, ids, decoder.hash(), seed);
    let batch = training.per_device_train_batch_size;
    let evaluate = |model: &Llama<B>| lm_loss(model, held_out, batch, task.pad);
    let before = evaluate(&decoder);
    let (device, parameters, rows) = (decoder.device(), decoder.count(), task.rows.len());
    let outcome = fit(&task, decoder, training, &identity, &device, recorder)?;
    Ok(outcome.map(|decoder| {
        let held_out = before.zip(evaluate(&decoder)).map(|(before, after)| HeldOut::new(before, after));
        TrainedLm { decoder, summary: LmSummary { parameters, rows, held_out } }
    }))
}

/// Rows without a name of their own, counted from 1.
pub fn numbered<'a>(rows: impl Iterator<Item = &'a [u32]>) -> impl Iterator<Item = (String, &'a [u32])> {
    rows.enumerate().map(|(index, ids)| ((index + 1).to_string(), ids))
}

/// Refuses rows, given by name, that the model cannot read.
pub fn check_rows<'a, B: HydraBackend>(
    rows: impl Iterator<Item = (String, &'a [u32])>,
    decoder: &Llama<B>,
) -> Result<(), TrainError> {
    let (positions, vocabulary) = (decoder.config().max_position_embeddings, decoder.config().vocab_size);
    for (id, ids) in rows {
        if ids.is_empty() {
            return Err(TrainError::Empty { what: format!("row {id} has no token") });
        }
        if ids.len() > positions {
            return Err(TrainError::TooLong { id, length: ids.len(), positions });
        }
        if let Some(&token) = ids.iter().find(|&&token| token as usize >= vocabulary) {
            return Err(TrainError::Token { id, token, vocabulary });
        }
    }
    Ok(())
}

/// Summed negative log-likelihood of the rows' labels, a tensor of one number in nats.
pub fn lm_nll<B: HydraBackend>(
    model: &Llama<B>,
    hidden: Tensor<B, 2>,
    batch: &TokenBatch,
    rows: &[(usize, &Row)],
) -> Tensor<B, 1> {
    let (mut at, mut targets) = (Vec::new(), Vec::new());
    for &(row, labels) in rows {
        for token in labels.labels() {
            at.push(batch.flat(row, token - 1));
            targets.push(labels.ids[token]);
        }
    }
    model.logprobs(pick(hidden, &at), &targets, 1.0).sum().neg()
}

/// Mean negative log-likelihood per label token without gradient; `None` without rows.
pub fn lm_loss<B: HydraBackend>(model: &Llama<B>, rows: &[Row], batch_size: usize, pad: u32) -> Option<f64> {
    let tokens: usize = rows.iter().map(|row| row.labels().len()).sum();
    if tokens == 0 {
        return None;
    }
    let mut sum = 0.0;
    for rows in rows.chunks(batch_size) {
        let (batch, hidden) = forward(model, rows.iter().map(|row| row.ids.as_slice()), pad);
        let labelled: Vec<(usize, &Row)> = rows.iter().enumerate().collect();
        sum += f64::from(numbers(lm_nll(model, hidden, &batch, &labelled))[0]);
    }
    Some(sum / tokens as f64)
}

/// Right-padded rows and their hidden states `[rows · cols, hidden]`.
pub fn forward<'a, B: HydraBackend>(
    model: &Llama<B>,
    rows: impl Iterator<Item = &'a [u32]>,
    pad: u32,
) -> (TokenBatch, Tensor<B, 2>) {
    let rows: Vec<&[u32]> = rows.collect();
    let batch = TokenBatch::right_padded(&rows, pad);
    let hidden = model.hidden(&batch, None);
    let [rows, cols, width] = hidden.dims();
    (batch, hidden.reshape([rows * cols, width]))
}

struct LmTask {
    rows: Vec<Row>,
    pad: u32,
}

impl<B: HydraBackend> Task<B> for LmTask {
    type Model = Llama<B>;

    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn totals(&self, rows: &[usize]) -> Totals {
        Totals { tokens: rows.iter().map(|&row| self.rows[row].labels().len()).sum(), rows: rows.len() }
    }

    fn loss(
        &self,
        model: &Llama<Autodiff<B>>,
        rows: &[usize],
        totals: Totals,
        sums: &mut Sums,
    ) -> Tensor<Autodiff<B>, 1> {
        let rows: Vec<&Row> = rows.iter().map(|&row| &self.rows[row]).collect();
        let (batch, hidden) = forward(model, rows.iter().map(|row| row.ids.as_slice()), self.pad);
        let labelled: Vec<(usize, &Row)> = rows.iter().copied().enumerate().collect();
        let loss = lm_nll(model, hidden, &batch, &labelled) / totals.tokens as f64;
        *sums.entry("loss").or_default() += f64::from(numbers(loss.clone().inner())[0]);
        loss
    }
}
