//! Completions of a batch of prompts.

use burn::tensor::{DType, Tensor};
use rand_chacha::ChaCha8Rng;

use crate::backend::HydraBackend;
use crate::cache::Cache;
use crate::llama::Llama;
use crate::lora::Lora;
use crate::sampling::Sampling;

/// What the model wrote after one prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// The new tokens, the stop token included when there is one.
    pub ids: Vec<u32>,
    /// Whether it ended with a stop token rather than at the length limit.
    pub finished: bool,
}

/// Completes every prompt. Row `i` draws from `rngs[i]` only, so that its text does not depend on the rows
/// beside it (up to rounding). Rows that are done leave the batch.
///
/// # Panics
/// When there is not one generator per prompt, a prompt is empty, or prompt and completion together are
/// longer than the model's `max_position_embeddings`.
pub fn generate<B: HydraBackend>(
    model: &Llama<B>,
    adapter: Option<&Lora<B>>,
    prompts: &[&[u32]],
    sampling: &Sampling,
    rngs: &mut [ChaCha8Rng],
) -> Vec<Completion> {
    assert_eq!(prompts.len(), rngs.len(), "one random generator per prompt");
    assert!(prompts.iter().all(|prompt| !prompt.is_empty()), "a prompt has no token");
    let mut completions = vec![Completion::default(); prompts.len()];
    if prompts.is_empty() || sampling.max_new_tokens == 0 {
        return completions;
    }
    let longest = prompts.iter().map(|prompt| prompt.len()).max().unwrap_or(0);
    let capacity = longest + sampling.max_new_tokens;
    let rope = model.rope(capacity);
    let mut cache = Cache::new(model.config(), prompts.len(), capacity, &model.device());
    let mut hidden = model.prefill(prompts, adapter, &mut cache, &rope);
    // The prompt that each row of the cache belongs to.
    let mut active: Vec<usize> = (0..prompts.len()).collect();
    loop {
        let chosen = choose(model.lm_head(hidden), sampling, &active, rngs);
        let mut going = Vec::with_capacity(active.len());
        for (row, (&prompt, &id)) in active.iter().zip(&chosen).enumerate() {
            let completion = &mut completions[prompt];
            completion.ids.push(id);
            completion.finished = sampling.stop_ids.contains(&id);
            if !completion.finished && completion.ids.len() < sampling.max_new_tokens {
                going.push(row);
            }
        }
        if going.is_empty() {
            return completions;
        }
        if going.len() < active.len() {
            cache.keep(&going);
        }
        let ids: Vec<u32> = going.iter().map(|&row| chosen[row]).collect();
        active = going.iter().map(|&row| active[row]).collect();
        hidden = model.step(&ids, adapter, &mut cache, &rope);
    }
}

/// One token per row of `[rows, vocab]` logits.
fn choose<B: HydraBackend>(
    logits: Tensor<B, 2>,
    sampling: &Sampling,
    active: &[usize],
    rngs: &mut [ChaCha8Rng],
) -> Vec<u32> {
    let vocabulary = logits.dims()[1];
    let data = logits.into_data().convert_dtype(DType::F32);
    let values: Vec<f32> = data.iter::<f32>().collect();
    values
        .chunks(vocabulary)
        .zip(active)
        .map(|(row, &prompt)| sampling.choose(row, &mut rngs[prompt]))
        .collect()
}
