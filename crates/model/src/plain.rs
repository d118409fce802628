//! The operations of [`HydraBackend`] in plain tensor operations: what a backend without its own gets, and
//! what those of others are tested against.

use burn::tensor::activation::{sigmoid, softmax};
use burn::tensor::backend::Backend;
use burn::tensor::{Bool, IndexingUpdateOp, Int, Tensor, TensorData};

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

/// An index tensor.
pub fn indices<B: Backend>(values: impl IntoIterator<Item = usize>, device: &B::Device) -> Tensor<B, 1, Int> {
    let values: Vec<i32> = values.into_iter().map(|index| index as i32).collect();
    let count = values.len();
    Tensor::from_data(TensorData::new(values, [count]), device)
}

/// Rows of `x` put at `cells` of `total` rows; the others are zero.
pub fn spread<B: Backend>(x: Tensor<B, 2>, cells: Vec<usize>, total: usize) -> Tensor<B, 2> {
    let (width, device) = (x.dims()[1], x.device());
    if cells.len() == total {
        return x;
    }
    let zeros = Tensor::zeros([total, width], &device);
    zeros.select_assign(0, indices::<B>(cells, &device), x, IndexingUpdateOp::Add)
}

pub fn split_heads<B: Backend>(x: Tensor<B, 2>, at: &Attention, rope: Option<&Rope>) -> Tensor<B, 4> {
    let (rows, width) = (at.rows(), x.dims()[1]);
    let x = match rope {
        Some(rope) => rotate(x, &at.positions(), rope),
        None => x,
    };
    spread(x, at.cells(), rows * at.cols)
        .reshape([rows, at.cols, width / at.head_dim, at.head_dim])
        .swap_dims(1, 2)
}

pub fn merge_heads<B: Backend>(x: Tensor<B, 4>, at: &Attention, rope: Option<&Rope>) -> Tensor<B, 2> {
    let cells = at.rows() * at.cols;
    let width = x.dims().iter().product::<usize>() / cells.max(1);
    let heads = x.reshape([at.rows(), width / at.head_dim, at.cols, at.head_dim]);
    let mut x = heads.swap_dims(1, 2).reshape([cells, width]);
    if at.tokens() < cells {
        let index = indices::<B>(at.cells(), &x.device());
        x = x.select(0, index);
    }
    match rope {
        Some(rope) => rotate(x, &at.positions(), rope),
        None => x,
    }
}

pub fn causal_softmax<B: Backend>(scores: Tensor<B, 4>, at: &Attention) -> Tensor<B, 4> {
    let (dims, cols) = (scores.dims(), at.cols);
    let hidden = (0..cols).flat_map(|query| (0..cols).map(move |key| key > query));
    let hidden = TensorData::new(hidden.collect::<Vec<bool>>(), [1, 1, cols, cols]);
    let hidden = Tensor::<B, 4, Bool>::from_data(hidden, &scores.device());
    let scores = (scores * at.scale()).reshape([at.rows(), at.heads, cols, cols]);
    softmax(scores.mask_fill(hidden, f32::MIN), 3).reshape(dims)
}

pub fn softmax_backward<B: Backend>(weights: Tensor<B, 4>, grad: Tensor<B, 4>) -> Tensor<B, 4> {
    let inner = (weights.clone() * grad.clone()).sum_dim(3);
    weights * (grad - inner)
}

pub fn write_cache<B: Backend>(cache: Tensor<B, 3>, cells: &[usize], new: Tensor<B, 2>) -> Tensor<B, 3> {
    let [rows, capacity, width] = cache.dims();
    let index = indices::<B>(cells.iter().copied(), &cache.device());
    // Each cell is written once, and is zero until then.
    cache
        .reshape([rows * capacity, width])
        .select_assign(0, index, new, IndexingUpdateOp::Add)
        .reshape([rows, capacity, width])
}

pub fn attend_cache<B: Backend>(
    q: Tensor<B, 2>,
    keys: Tensor<B, 3>,
    values: Tensor<B, 3>,
    at: &CacheShape,
) -> Tensor<B, 2> {
    let &CacheShape { heads, kv_heads, head_dim, .. } = at;
    let (rows, group) = (at.lens.len(), heads / kv_heads);
    let len = at.lens.iter().copied().max().unwrap_or(0);
    let view = |x: Tensor<B, 3>| x.narrow(1, 0, len).reshape([rows, len, kv_heads, head_dim]).swap_dims(1, 2);
    let hidden = at.lens.iter().flat_map(|&seen| (0..len).map(move |key| key >= seen));
    let hidden = TensorData::new(hidden.collect::<Vec<bool>>(), [rows, 1, 1, len]);
    let hidden = Tensor::<B, 4, Bool>::from_data(hidden, &q.device());
    let q = q.reshape([rows, kv_heads, group, head_dim]) * (head_dim as f64).powf(-0.5);
    let scores = q.matmul(view(keys).transpose()).mask_fill(hidden, f32::MIN);
    softmax(scores, 3).matmul(view(values)).reshape([rows, heads * head_dim])
}

/// `[n, 1]` of target ids.
fn index<B: Backend>(targets: &[u32], device: &B::Device) -> Tensor<B, 2, Int> {
    indices::<B>(targets.iter().map(|&id| id as usize), device).reshape([targets.len(), 1])
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
    probabilities.scatter(1, index, grad, IndexingUpdateOp::Add)
}
