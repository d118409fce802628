//! The one trait that models and trainers are generic over.

use std::sync::Arc;

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

use crate::attention::{self, Attention, Rope};
use crate::cache::CacheShape;
use crate::{logprobs, plain};

/// burn's `Backend` plus the few operations that are worth fusing, each with a default made of plain
/// tensor operations: a new backend needs only an empty `impl`.
///
/// Models call the operations of the first group, which `Autodiff` can differentiate. Those of the second
/// group are the parts that they and their gradients are made of.
pub trait HydraBackend: Backend {
    /// `x · Wᵀ`: `[n, in]` and a weight `[out, in]` to `[n, out]`.
    fn project(x: Tensor<Self, 2>, weight: Tensor<Self, 2>) -> Tensor<Self, 2> {
        x.matmul(weight.transpose())
    }

    /// Root-mean-square norm over the last axis: `x / √(mean(x²) + ε) · w`, `[n, hidden]` and `[1, hidden]`.
    fn rms_norm(x: Tensor<Self, 2>, weight: Tensor<Self, 2>, eps: f64) -> Tensor<Self, 2> {
        plain::rms_norm(x, weight, eps)
    }

    /// `silu(gate) · up`, elementwise.
    fn silu_mul(gate: Tensor<Self, 2>, up: Tensor<Self, 2>) -> Tensor<Self, 2> {
        plain::silu_mul(gate, up)
    }

    /// Causal grouped-query attention with rotary embedding: `q` is `[tokens, heads · d]`, `k` and `v`
    /// are `[tokens, kv_heads · d]`, the result is shaped as `q`.
    fn causal_attention(
        q: Tensor<Self, 2>,
        k: Tensor<Self, 2>,
        v: Tensor<Self, 2>,
        at: &Arc<Attention>,
    ) -> Tensor<Self, 2> {
        attention::forward(q, k, v, at)
    }

    /// Log-probabilities `[n]` of `targets` under `softmax(hidden · Wᵀ / temperature)`, with hidden states
    /// `[n, hidden]` and the language-model head `[vocab, hidden]`.
    fn target_logprobs(
        hidden: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        targets: &[u32],
        temperature: f64,
    ) -> Tensor<Self, 1> {
        logprobs::forward(hidden, weight, targets, temperature)
    }

    /// Gradients of [`rms_norm`](Self::rms_norm): of `x`, and of the weight if `want_weight`.
    fn rms_norm_backward(
        x: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        eps: f64,
        grad: Tensor<Self, 2>,
        want_weight: bool,
    ) -> (Tensor<Self, 2>, Option<Tensor<Self, 2>>) {
        let (x, weight) = plain::rms_norm_backward(x, weight, eps, grad);
        (x, want_weight.then_some(weight))
    }

    /// Gradients of [`silu_mul`](Self::silu_mul): of `gate` and of `up`.
    fn silu_mul_backward(
        gate: Tensor<Self, 2>,
        up: Tensor<Self, 2>,
        grad: Tensor<Self, 2>,
    ) -> (Tensor<Self, 2>, Tensor<Self, 2>) {
        plain::silu_mul_backward(gate, up, grad)
    }

    /// Rotary embedding of `[n, heads · d]` at the given positions.
    fn rotate(x: Tensor<Self, 2>, positions: &[u32], rope: &Rope) -> Tensor<Self, 2> {
        plain::rotate(x, positions, rope)
    }

    /// `[tokens, heads · d]`, rotated if there is a table, to `[rows, heads, cols, d]`; zero beyond the end of
    /// a row.
    fn split_heads(x: Tensor<Self, 2>, at: &Attention, rope: Option<&Rope>) -> Tensor<Self, 4> {
        plain::split_heads(x, at, rope)
    }

    /// Back from [`split_heads`](Self::split_heads); then rotated if there is a table.
    fn merge_heads(x: Tensor<Self, 4>, at: &Attention, rope: Option<&Rope>) -> Tensor<Self, 2> {
        plain::merge_heads(x, at, rope)
    }

    /// Softmax of `scores / √d` over the keys up to each query's own, 0 for the others. The shape is
    /// `[rows, kv_heads, group · cols, cols]`; what queries beyond the end of a row get is of no consequence.
    fn causal_softmax(scores: Tensor<Self, 4>, at: &Attention) -> Tensor<Self, 4> {
        plain::causal_softmax(scores, at)
    }

    /// `weights · (grad − Σ weights · grad)` over the last axis: the gradient of a softmax.
    fn softmax_backward(weights: Tensor<Self, 4>, grad: Tensor<Self, 4>) -> Tensor<Self, 4> {
        plain::softmax_backward(weights, grad)
    }

    /// Writes rows of `new`, `[n, kv_heads · d]`, to cells of a cache `[rows, capacity, kv_heads · d]` seen as
    /// `[rows · capacity, …]`. Each cell is written once and is zero until then.
    fn write_cache(cache: Tensor<Self, 3>, cells: &[usize], new: Tensor<Self, 2>) -> Tensor<Self, 3> {
        plain::write_cache(cache, cells, new)
    }

    /// Attention of one rotated query per row, `[rows, heads · d]`, over the row's first `at.lens[row]` tokens
    /// of `keys` and `values`, `[rows, capacity, kv_heads · d]`.
    fn attend_cache(
        q: Tensor<Self, 2>,
        keys: Tensor<Self, 3>,
        values: Tensor<Self, 3>,
        at: &CacheShape,
    ) -> Tensor<Self, 2> {
        plain::attend_cache(q, keys, values, at)
    }

    /// `log softmax(logits)[i, targets[i]]`: `[n, vocab]` to `[n]`.
    fn pick_logprobs(logits: Tensor<Self, 2>, targets: &[u32]) -> Tensor<Self, 1> {
        plain::pick_logprobs(logits, targets)
    }

    /// Gradient of [`pick_logprobs`](Self::pick_logprobs): `grad · (onehot − softmax)`, `[n, vocab]`.
    fn pick_logprobs_backward(
        logits: Tensor<Self, 2>,
        targets: &[u32],
        grad: Tensor<Self, 1>,
    ) -> Tensor<Self, 2> {
        plain::pick_logprobs_backward(logits, targets, grad)
    }
}

#[cfg(feature = "cuda")]
impl HydraBackend for burn::backend::Cuda {}
