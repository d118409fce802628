//! The one trait that models and trainers are generic over.

use std::sync::Arc;

use burn::backend::Flex;
use burn::tensor::activation::silu;
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};

use crate::attention::{self, Attention, Rope};
use crate::cache::CacheShape;

/// Logits of this many bytes at most exist at once when log-probabilities are taken without gradient.
const LOGITS_BYTES: usize = 8 << 20;

/// burn's `Backend` plus the few operations that are worth fusing, each with a default made of plain
/// tensor operations: a new backend needs only an empty `impl`.
pub trait HydraBackend: Backend {
    /// `x · Wᵀ`: `[n, in]` and a weight `[out, in]` to `[n, out]`.
    fn project(x: Tensor<Self, 2>, weight: Tensor<Self, 2>) -> Tensor<Self, 2> {
        x.matmul(weight.transpose())
    }

    /// Root-mean-square norm over the last axis: `x / √(mean(x²) + ε) · w`, `[n, hidden]` and `[1, hidden]`.
    fn rms_norm(x: Tensor<Self, 2>, weight: Tensor<Self, 2>, eps: f64) -> Tensor<Self, 2> {
        let width = x.dims()[1] as f64;
        let mean = (x.clone() * x.clone()).sum_dim(1) / width;
        x * (mean + eps).sqrt().recip() * weight
    }

    /// `silu(gate) · up`, elementwise.
    fn silu_mul(gate: Tensor<Self, 2>, up: Tensor<Self, 2>) -> Tensor<Self, 2> {
        silu(gate) * up
    }

    /// Causal grouped-query attention with rotary embedding: `q` is `[rows · cols, heads · d]`, `k` and `v`
    /// are `[rows · cols, kv_heads · d]`, the result is shaped as `q`.
    fn causal_attention(
        q: Tensor<Self, 2>,
        k: Tensor<Self, 2>,
        v: Tensor<Self, 2>,
        at: &Arc<Attention>,
    ) -> Tensor<Self, 2> {
        attention::attention(q, k, v, at)
    }

    /// Rotary embedding of `[n, heads · d]` at the given positions.
    fn rotate(x: Tensor<Self, 2>, positions: &[u32], rope: &Rope) -> Tensor<Self, 2> {
        attention::rotate(x, positions, rope)
    }

    /// Attention of one rotated query per row, `[rows, heads · d]`, over the first `at.len` tokens of
    /// `keys` and `values`, `[rows, capacity, kv_heads · d]`.
    fn attend_cache(
        q: Tensor<Self, 2>,
        keys: Tensor<Self, 3>,
        values: Tensor<Self, 3>,
        at: &CacheShape,
    ) -> Tensor<Self, 2> {
        attention::attend_cache(q, keys, values, at)
    }

    /// Log-probabilities `[n]` of `targets` under `softmax(hidden · Wᵀ / temperature)`, with hidden states
    /// `[n, hidden]` and the language-model head `[vocab, hidden]`.
    fn target_logprobs(
        hidden: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        targets: &[u32],
        temperature: f64,
    ) -> Tensor<Self, 1> {
        let ([n, _], [vocab, _]) = (hidden.dims(), weight.dims());
        assert_eq!(n, targets.len(), "one target per hidden state");
        let chunk = (LOGITS_BYTES / (4 * vocab)).max(1);
        let parts: Vec<Tensor<Self, 1>> = targets
            .chunks(chunk)
            .enumerate()
            .map(|(index, targets)| {
                let rows = hidden.clone().narrow(0, index * chunk, targets.len());
                let logits = Self::project(rows, weight.clone()) / temperature;
                pick_logprobs(logits, targets)
            })
            .collect();
        match parts.len() {
            0 => Tensor::zeros([0], &hidden.device()),
            _ => Tensor::cat(parts, 0),
        }
    }
}

/// `log softmax(logits)[i, targets[i]]`: `[n, vocab]` to `[n]`.
fn pick_logprobs<B: Backend>(logits: Tensor<B, 2>, targets: &[u32]) -> Tensor<B, 1> {
    let n = targets.len();
    let index: Vec<i32> = targets.iter().map(|&id| id as i32).collect();
    let index = Tensor::<B, 2, Int>::from_data(TensorData::new(index, [n, 1]), &logits.device());
    let shifted = logits.clone() - logits.max_dim(1).detach();
    let log_sum = shifted.clone().exp().sum_dim(1).log();
    (shifted.gather(1, index) - log_sum).reshape([n])
}

impl HydraBackend for Flex {}
