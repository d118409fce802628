//! The reward of a response: one function for reward-eval, judge and PPO.

use model::{Head, HydraBackend, Llama};

use crate::TrainError;
use crate::batching::{numbers, pick};
use crate::lm::{check_rows, forward, numbered};

/// Rewards of `(prompt, response)` rows: the head at the response's last token, EOS included.
/// `batch_size` rows are read at once.
pub fn score<B: HydraBackend>(
    decoder: &Llama<B>,
    head: &Head<B>,
    rows: &[(&[u32], &[u32])],
    batch_size: usize,
    pad: u32,
) -> Result<Vec<f32>, TrainError> {
    let whole: Vec<Vec<u32>> = rows.iter().map(|(prompt, response)| [*prompt, *response].concat()).collect();
    check_rows(numbered(whole.iter().map(Vec::as_slice)), decoder)?;
    let mut scores = Vec::with_capacity(rows.len());
    for rows in whole.chunks(batch_size.max(1)) {
        let (batch, hidden) = forward(decoder, rows.iter().map(Vec::as_slice), pad);
        let last: Vec<usize> =
            rows.iter().enumerate().map(|(row, ids)| batch.flat(row, ids.len() - 1)).collect();
        scores.extend(numbers(head.forward(pick(hidden, &last))));
    }
    Ok(scores)
}
