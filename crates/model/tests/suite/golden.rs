//! Numbers computed by transformers and PEFT (`golden/llama_logits.py`).

use std::collections::BTreeMap;

use burn::backend::Autodiff;
use model::{Llama, LlamaConfig, Lora, Parameters, TokenBatch, gradients};
use serde::Deserialize;

use crate::tiny::{self, B, assert_close, floats};

#[derive(Deserialize)]
struct Golden {
    ids: Vec<u32>,
    cases: Cases,
}

#[derive(Deserialize)]
struct Cases {
    tied: Case,
    untied_wide_heads: Case,
    lora: Case,
    score: Score,
}

#[derive(Deserialize)]
struct Case {
    logits: Vec<f32>,
    logprobs: Vec<f32>,
    loss: f32,
    gradients: BTreeMap<String, Gradient>,
}

#[derive(Deserialize)]
struct Gradient {
    sum: f32,
    abs_sum: f32,
    first: f32,
}

#[derive(Deserialize)]
struct Score {
    score: f32,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/llama_logits.json")).expect("the golden file")
}

/// Logits, log-probabilities and the gradients of the mean next-token loss.
fn check(case: &Case, ids: &[u32], config: &LlamaConfig, adapter: Option<Lora<B>>) {
    let decoder = tiny::llama(config);
    let batch = TokenBatch::right_padded(&[ids], 0);
    let n = ids.len();
    let hidden = decoder.hidden(&batch, adapter.as_ref()).reshape([n, config.hidden_size]);
    assert_close(&floats(decoder.lm_head(hidden.clone())), &case.logits, 2e-5, "logits");
    let logprobs = decoder.logprobs(hidden.narrow(0, 0, n - 1), &ids[1..], 1.0);
    assert_close(&floats(logprobs), &case.logprobs, 2e-5, "logprobs");

    let tracked: Llama<Autodiff<B>> = decoder.tracked(|_| adapter.is_none());
    let adapter: Option<Lora<Autodiff<B>>> = adapter.map(|adapter| adapter.tracked(|_| true));
    let hidden = tracked.hidden(&batch, adapter.as_ref()).reshape([n, config.hidden_size]);
    let loss = -tracked.logprobs(hidden.narrow(0, 0, n - 1), &ids[1..], 1.0).mean();
    assert_close(&floats(loss.clone()), &[case.loss], 1e-5, "loss");
    let mut grads = loss.backward();
    let found = match &adapter {
        None => gradients(&tracked, &mut grads),
        Some(adapter) => gradients(adapter, &mut grads),
    };
    let expected = case.gradients.keys().collect::<Vec<_>>();
    assert_eq!(found.keys().collect::<Vec<_>>(), expected, "parameters with a gradient");
    for (name, expected) in &case.gradients {
        let gradient = floats(found[name].clone());
        let sum = gradient.iter().sum();
        let abs_sum = gradient.iter().map(|g| g.abs()).sum();
        let numbers = [sum, abs_sum, gradient[0]];
        let expected = [expected.sum, expected.abs_sum, expected.first];
        assert_close(&numbers, &expected, 1e-4, name);
    }
}

#[test]
fn tied_llama_with_grouped_queries_agrees_with_transformers() {
    let Golden { ids, cases } = golden();
    check(&cases.tied, &ids, &tiny::config(true, 4), None);
}

#[test]
fn untied_llama_whose_heads_are_wider_than_the_residual_agrees_with_transformers() {
    let Golden { ids, cases } = golden();
    check(&cases.untied_wide_heads, &ids, &tiny::config(false, 6), None);
}

#[test]
fn adapter_agrees_with_peft() {
    let Golden { ids, cases } = golden();
    let config = tiny::config(true, 4);
    check(&cases.lora, &ids, &config, Some(tiny::lora(&config)));
}

#[test]
fn merged_adapter_agrees_with_peft() {
    let Golden { ids, cases } = golden();
    let config = tiny::config(true, 4);
    let merged = tiny::llama(&config).merged(&tiny::lora(&config));
    let hidden = merged.hidden(&TokenBatch::right_padded(&[&ids], 0), None);
    let logits = merged.lm_head(hidden.reshape([ids.len(), config.hidden_size]));
    assert_close(&floats(logits), &cases.lora.logits, 5e-5, "logits");
}

#[test]
fn a30_score_at_the_last_token_agrees_with_transformers() {
    let Golden { ids, cases } = golden();
    let config = tiny::config(true, 4);
    let batch = TokenBatch::right_padded(&[&ids[..], &[1; 11]], 0);
    let hidden = tiny::llama(&config).hidden(&batch, None).reshape([22, config.hidden_size]);
    let last = hidden.narrow(0, batch.flat(0, ids.len() - 1), 1);
    let score = floats(tiny::head(&config).forward(last));
    assert_close(&score, &[cases.score.score], 2e-5, "score");
}
