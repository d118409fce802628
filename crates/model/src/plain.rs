//! The operations of [`HydraBackend`] in plain tensor operations: what a backend without its own gets, and
//! what those of others are tested against.

use burn::tensor::activation::{sigmoid, softmax};
use burn::tensor::backend::Backend;
use burn::tensor::{Bool, Int, Tensor, TensorData};

use crate::attention::{Attention, Rope};
use crate::cache::CacheShape;

/// `1 / √(mean(x²) + ε)` of each row, `[n, 1]`.
fn inverse_rms<B: Backend>(x: &Tensor<B, 2>, eps: f64) -> Tensor<B, 2> {
    let width = x.dims()[1] as f64;
    ((x.clone() * x.clone()).sum_dim(1) / width + eps).sqrt().recip()
}

pub fn rms_norm<B: Backend>(x: Tensor<B, 2>, weight: Tensor<B, 2>, eps: f64) -> Tensor<B, 2> {
    let scale = inverse_rms(&x, eps);
    x * scale * weight
}

/// Gradients of `x` and of the weight.
pub fn rms_norm_backward<B: Backend>(
    x: Tensor<B, 2>,
    weight: Tensor<B, 2>,
    eps: f64,
    grad: Tensor<B, 2>,
) -> (Tensor<B, 2>, Tensor<B, 2>) {
    let width = x.dims()[1] as f64;
    let scale = inverse_rms(&x, eps);
    let normed = x * scale.clone();
    let weight_grad = (grad.clone() * normed.clone()).sum_dim(0);
    let grad = grad * weight;
    let inner = (grad.clone() * normed.clone()).sum_dim(1) / width;
    ((grad - normed * inner) * scale, weight_grad)
}

pub fn silu_mul<B: Backend>(gate: Tensor<B, 2>, up: Tensor<B, 2>) -> Tensor<B, 2> {
    sigmoid(gate.clone()) * gate * up
}

/// Gradients of `gate` and of `up`.
pub fn silu_mul_backward<B: Backend>(
    gate: Tensor<B, 2>,
    up: Tensor<B, 2>,
    grad: Tensor<B, 2>,
) -> (Tensor<B, 2>, Tensor<B, 2>) {
    let s = sigmoid(gate.clone());
    let silu = gate.clone() * s.clone();
    // silu' = σ + silu · (1 − σ)
    let slope = s.clone() + silu.clone() - silu.clone() * s;
    (grad.clone() * up * slope, grad * silu)
}

pub fn rotate<B: Backend>(x: Tensor<B, 2>, positions: &[u32], rope: &Rope) -> Tensor<B, 2> {
    let ([n, width], half) = (x.dims(), rope.half);
    let device = x.device();
    let table = |values: &[f32]| {
        let rows = positions.iter().flat_map(|&p| &values[p as usize * half..][..half]);
        let rows: Vec<f32> = rows.copied().collect();
        Tensor::<B, 3>::from_data(TensorData::new(rows, [n, 1, half]), &device)
    };
    let (cos, sin) = (table(&rope.cos), table(&rope.sin));
    let x: Tensor<B, 3> = x.reshape([n, width / (2 * half), 2 * half]);
    let (first, second) = (x.clone().narrow(2, 0, half), x.narrow(2, half, half));
    let rotated =
        vec![first.clone() * cos.clone() - second.clone() * sin.clone(), second * cos + first * sin];
    Tensor::cat(rotated, 2).reshape([n, width])
}

pub fn split_heads<B: Backend>(x: Tensor<B, 2>, at: &Attention, rope: Option<&Rope>) -> Tensor<B, 4> {
    let width = x.dims()[1];
    let x = match rope {
        Some(rope) => rotate(x, &at.positions, rope),
        None => x,
    };
    x.reshape([at.rows, at.cols, width / at.head_dim, at.head_dim]).swap_dims(1, 2)
}

pub fn merge_heads<B: Backend>(x: Tensor<B, 4>, at: &Attention, rope: Option<&Rope>) -> Tensor<B, 2> {
    let tokens = at.rows * at.cols;
    let width = x.dims().iter().product::<usize>() / tokens;
    let heads = x.reshape([at.rows, width / at.head_dim, at.cols, at.head_dim]);
    let x = heads.swap_dims(1, 2).reshape([tokens, width]);
    match rope {
        Some(rope) => rotate(x, &at.positions, rope),
        None => x,
    }
}

pub fn causal_softmax<B: Backend>(scores: Tensor<B, 4>, at: &Attention) -> Tensor<B, 4> {
    let (dims, cols) = (scores.dims(), at.cols);
    let rows = if at.starts.iter().all(|&start| start == 0) { 1 } else { at.rows };
    let mut hidden = vec![true; rows * cols * cols];
    for row in 0..rows {
        for query in 0..cols {
            let keys = &mut hidden[(row * cols + query) * cols..][..cols];
            keys[at.visible(row, query)].fill(false);
        }
    }
    let hidden = TensorData::new(hidden, [rows, 1, cols, cols]);
    let hidden = Tensor::<B, 4, Bool>::from_data(hidden, &scores.device());
    let scores = (scores * at.scale()).reshape([at.rows, at.heads, cols, cols]);
    softmax(scores.mask_fill(hidden, f32::MIN), 3).reshape(dims)
}

pub fn softmax_backward<B: Backend>(weights: Tensor<B, 4>, grad: Tensor<B, 4>) -> Tensor<B, 4> {
    let inner = (weights.clone() * grad.clone()).sum_dim(3);
    weights * (grad - inner)
}

pub fn attend_cache<B: Backend>(
    q: Tensor<B, 2>,
    keys: Tensor<B, 3>,
    values: Tensor<B, 3>,
    at: &CacheShape,
) -> Tensor<B, 2> {
    let &CacheShape { len, heads, kv_heads, head_dim, .. } = at;
    let (rows, group) = (at.starts.len(), heads / kv_heads);
    let view = |x: Tensor<B, 3>| x.narrow(1, 0, len).reshape([rows, len, kv_heads, head_dim]).swap_dims(1, 2);
    let device = q.device();
    let q = q.reshape([rows, kv_heads, group, head_dim]) * (head_dim as f64).powf(-0.5);
    let mut scores = q.matmul(view(keys).transpose());
    if at.starts.iter().any(|&start| start > 0) {
        let hidden = at.starts.iter().flat_map(|&start| (0..len).map(move |key| key < start));
        let hidden = TensorData::new(hidden.collect::<Vec<bool>>(), [rows, 1, 1, len]);
        let hidden = Tensor::<B, 4, Bool>::from_data(hidden, &device);
        scores = scores.mask_fill(hidden, f32::MIN);
    }
    softmax(scores, 3).matmul(view(values)).reshape([rows, heads * head_dim])
}

/// `[n, 1]` of target ids.
fn index<B: Backend>(targets: &[u32], device: &B::Device) -> Tensor<B, 2, Int> {
    let ids: Vec<i32> = targets.iter().map(|&id| id as i32).collect();
    Tensor::from_data(TensorData::new(ids, [targets.len(), 1]), device)
}

pub fn pick_logprobs<B: Backend>(logits: Tensor<B, 2>, targets: &[u32]) -> Tensor<B, 1> {
    let index = index::<B>(targets, &logits.device());
    let shifted = logits.clone() - logits.max_dim(1);
    let log_sum = shifted.clone().exp().sum_dim(1).log();
    (shifted.gather(1, index) - log_sum).reshape([targets.len()])
}

pub fn pick_logprobs_backward<B: Backend>(
    logits: Tensor<B, 2>,
    targets: &[u32],
    grad: Tensor<B, 1>,
) -> Tensor<B, 2> {
    let index = index::<B>(targets, &logits.device());
    let grad = grad.reshape([targets.len(), 1]);
    let probabilities = softmax(logits, 1) * -grad.clone();
    probabilities.scatter(1, index, grad, burn::tensor::IndexingUpdateOp::Add)
}
