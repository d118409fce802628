//! Cached generation against plain forward passes.

use model::{Completion, Llama, Lora, Sampling, TokenBatch, generate};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::tiny::{self, B, floats};

fn rngs(count: usize) -> Vec<ChaCha8Rng> {
    (0..count).map(|row| ChaCha8Rng::seed_from_u64(row as u64)).collect()
}

fn run(
    decoder: &Llama<B>,
    adapter: Option<&Lora<B>>,
    prompts: &[&[u32]],
    sampling: &Sampling,
) -> Vec<Completion> {
    generate(decoder, adapter, prompts, sampling, &mut rngs(prompts.len()))
}

/// The most probable next token, from a whole forward pass.
fn next(decoder: &Llama<B>, adapter: Option<&Lora<B>>, ids: &[u32]) -> u32 {
    let hidden = decoder.hidden(&TokenBatch::right_padded(&[ids], 0), adapter);
    let last = hidden.slice([0..1, ids.len() - 1..ids.len()]).reshape([1, 16]);
    let logits = floats(decoder.lm_head(last));
    let best = |a: &usize, b: &usize| logits[*a].total_cmp(&logits[*b]);
    (0..logits.len()).max_by(best).expect("a vocabulary") as u32
}

const PROMPTS: [&[u32]; 4] = [&[3, 1, 4, 1, 5, 9], &[2], &[6, 5], &[3, 5, 8, 9]];

#[test]
fn greedy_generation_equals_teacher_forced_argmax() {
    for (tied, head_dim) in [(true, 4), (false, 6)] {
        let config = tiny::config(tied, head_dim);
        let (decoder, lora) = (tiny::llama(&config), tiny::lora(&config));
        for adapter in [None, Some(&lora)] {
            let found = run(&decoder, adapter, &PROMPTS, &Sampling::greedy(9, vec![]));
            for (prompt, completion) in PROMPTS.iter().zip(&found) {
                let mut ids = prompt.to_vec();
                for &id in &completion.ids {
                    assert_eq!(id, next(&decoder, adapter, &ids), "after {ids:?}");
                    ids.push(id);
                }
                assert_eq!((completion.ids.len(), completion.finished), (9, false));
            }
        }
    }
}

#[test]
fn rows_that_stop_early_leave_the_others_alone() {
    let decoder = tiny::llama(&tiny::config(true, 4));
    let free = run(&decoder, None, &PROMPTS, &Sampling::greedy(9, vec![]));
    // Stop at what some row says third: rows then end at different steps.
    let stop = free[1].ids[2];
    let found = run(&decoder, None, &PROMPTS, &Sampling::greedy(9, vec![stop]));
    for (free, found) in free.iter().zip(&found) {
        let end = free.ids.iter().position(|&id| id == stop);
        let length = end.map_or(9, |index| index + 1);
        assert_eq!(found.ids, free.ids[..length]);
        assert_eq!(found.finished, end.is_some());
    }
    assert!(found.iter().any(|c| c.finished) && found[1].ids.last() == Some(&stop));
}

#[test]
fn a_sampled_row_does_not_depend_on_its_batch_mates() {
    let decoder = tiny::llama(&tiny::config(true, 4));
    let sampling = Sampling { temperature: 0.9, top_k: 12, top_p: 0.95, ..Sampling::greedy(12, vec![7]) };
    let together = run(&decoder, None, &PROMPTS, &sampling);
    for (row, prompt) in PROMPTS.iter().enumerate() {
        let mut rng = [ChaCha8Rng::seed_from_u64(row as u64)];
        let alone = generate(&decoder, None, &[prompt], &sampling, &mut rng);
        assert_eq!(alone[0], together[row], "row {row}");
    }
    assert_eq!(together, run(&decoder, None, &PROMPTS, &sampling), "same seeds, same text");
}

#[test]
fn nothing_to_do_is_done() {
    let decoder = tiny::llama(&tiny::config(true, 4));
    assert_eq!(run(&decoder, None, &[], &Sampling::greedy(4, vec![])), []);
    let none = run(&decoder, None, &[&[1]], &Sampling::greedy(0, vec![]));
    assert_eq!(none, [Completion::default()]);
}
