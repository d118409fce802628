//! What attention must know besides its tensors: the batch's shape, padding and rotary angles.

use std::sync::Arc;

use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Tensor, TensorData};

use crate::backend::HydraBackend;
use crate::batch::TokenBatch;
use crate::config::LlamaConfig;

/// Rotary embedding tables: `cos` and `sin` of `position · θ^(−2i/d)`, `[positions, d/2]` row by row
/// (Su et al., RoFormer, in the half-split layout of Hugging Face's Llama).
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    pub(crate) cos: Vec<f32>,
    pub(crate) sin: Vec<f32>,
    /// Half the head dimension.
    pub(crate) half: usize,
}

impl Rope {
    /// Tables for the positions `0..positions`.
    pub fn new(head_dim: usize, theta: f64, positions: usize) -> Self {
        let half = head_dim / 2;
        // Inverse frequencies are rounded to f32 as the reference implementation keeps them.
        let frequencies: Vec<f32> =
            (0..half).map(|i| (1.0 / theta.powf(2.0 * i as f64 / head_dim as f64)) as f32).collect();
        let angles = (0..positions).flat_map(|position| frequencies.iter().map(move |f| position as f32 * f));
        let (sin, cos) = angles.map(f32::sin_cos).unzip();
        Self { cos, sin, half }
    }

    /// Number of positions in the tables.
    pub fn positions(&self) -> usize {
        self.cos.len().checked_div(self.half).unwrap_or(0)
    }

    /// Sines negated: the inverse rotation, which is also its gradient.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let sin = self.sin.iter().map(|s| -s).collect();
        Self { cos: self.cos.clone(), sin, half: self.half }
    }
}

/// The shape of causal grouped-query attention over one padded batch.
#[derive(Debug, Clone)]
pub struct Attention {
    /// Rows of the batch.
    pub rows: usize,
    /// Columns of the batch, pads included.
    pub cols: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; a divisor of `heads`.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Position of each token, `rows · cols` of them.
    pub positions: Vec<u32>,
    /// First real column of each row. Pads on the right need no mask: causality hides them.
    pub starts: Vec<usize>,
    /// Rotary tables for at least the largest position.
    pub rope: Arc<Rope>,
}

impl Attention {
    /// The attention of a model over a batch.
    pub fn new(config: &LlamaConfig, rope: Arc<Rope>, batch: &TokenBatch) -> Self {
        Self {
            rows: batch.rows(),
            cols: batch.cols(),
            heads: config.num_attention_heads,
            kv_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
            positions: batch.positions(),
            starts: (0..batch.rows()).map(|row| batch.start(row)).collect(),
            rope,
        }
    }

    /// Query heads per key head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Factor of the scores, `1/√head_dim`.
    pub fn scale(&self) -> f64 {
        (self.head_dim as f64).powf(-0.5)
    }
}

/// Rotates `[n, heads · d]` by the tokens' positions; plain tensor operations.
pub fn rotate<B: HydraBackend>(x: Tensor<B, 2>, positions: &[u32], rope: &Rope) -> Tensor<B, 2> {
    let ([n, width], half) = (x.dims(), rope.half);
    let device = x.device();
    let table = |values: &[f32]| {
        let rows: Vec<f32> = positions
            .iter()
            .flat_map(|&p| &values[p as usize * half..(p as usize + 1) * half])
            .copied()
            .collect();
        Tensor::<B, 3>::from_data(TensorData::new(rows, [n, 1, half]), &device)
    };
    let (cos, sin) = (table(&rope.cos), table(&rope.sin));
    let x: Tensor<B, 3> = x.reshape([n, width / (2 * half), 2 * half]);
    let (first, second) = (x.clone().narrow(2, 0, half), x.narrow(2, half, half));
    let rotated =
        vec![first.clone() * cos.clone() - second.clone() * sin.clone(), second * cos + first * sin];
    Tensor::cat(rotated, 2).reshape([n, width])
}

/// Causal attention with rotary embedding in plain tensor operations: `q` is `[rows · cols, heads · d]`,
/// `k` and `v` are `[rows · cols, kv_heads · d]`; the result has the shape of `q`.
pub fn attention<B: HydraBackend>(
    q: Tensor<B, 2>,
    k: Tensor<B, 2>,
    v: Tensor<B, 2>,
    at: &Attention,
) -> Tensor<B, 2> {
    let &Attention { rows, cols, heads, kv_heads, head_dim, .. } = at;
    let group = at.group();
    let device = q.device();
    let q = rotate(q, &at.positions, &at.rope)
        .reshape([rows, cols, kv_heads, group, head_dim])
        .permute([0, 2, 3, 1, 4])
        .reshape([rows, kv_heads, group * cols, head_dim]);
    let keys = |x: Tensor<B, 2>| x.reshape([rows, cols, kv_heads, head_dim]).permute([0, 2, 1, 3]);
    let (k, v) = (keys(rotate(k, &at.positions, &at.rope)), keys(v));
    let scores = (q * at.scale()).matmul(k.transpose());
    let scores = scores
        .reshape([rows, kv_heads * group, cols, cols])
        .mask_fill(hidden_keys::<B>(at, &device), f32::MIN);
    softmax(scores, 3)
        .reshape([rows, kv_heads, group * cols, cols])
        .matmul(v)
        .reshape([rows, kv_heads, group, cols, head_dim])
        .permute([0, 3, 1, 2, 4])
        .reshape([rows * cols, heads * head_dim])
}

/// `[rows or 1, 1, cols, cols]`: true where a query must not see a key. A pad sees itself, so that no
/// query is without keys.
fn hidden_keys<B: HydraBackend>(at: &Attention, device: &B::Device) -> Tensor<B, 4, Bool> {
    let cols = at.cols;
    let starts = if at.starts.iter().all(|&s| s == 0) { &[0][..] } else { &at.starts[..] };
    let mut mask = Vec::with_capacity(starts.len() * cols * cols);
    for &start in starts {
        for query in 0..cols {
            mask.extend((0..cols).map(|key| key > query || (key < start && key != query)));
        }
    }
    Tensor::from_data(TensorData::new(mask, [starts.len(), 1, cols, cols]), device)
}

/// One new query per row, `[rows, heads · d]` and already rotated, over the first `len` tokens of a cache
/// whose tensors are `[rows, capacity, kv_heads · d]`; plain tensor operations.
pub fn attend_cache<B: HydraBackend>(
    q: Tensor<B, 2>,
    keys: Tensor<B, 3>,
    values: Tensor<B, 3>,
    at: &crate::cache::CacheShape,
) -> Tensor<B, 2> {
    let &crate::cache::CacheShape { len, heads, kv_heads, head_dim, .. } = at;
    let (rows, group) = (at.starts.len(), heads / kv_heads);
    let device = q.device();
    let view =
        |x: Tensor<B, 3>| x.narrow(1, 0, len).reshape([rows, len, kv_heads, head_dim]).permute([0, 2, 1, 3]);
    let q = q.reshape([rows, kv_heads, group, head_dim]) * (head_dim as f64).powf(-0.5);
    let mut scores = q.matmul(view(keys).transpose());
    if at.starts.iter().any(|&start| start > 0) {
        let mask: Vec<bool> =
            at.starts.iter().flat_map(|&start| (0..len).map(move |key| key < start)).collect();
        let mask = Tensor::<B, 4, Bool>::from_data(TensorData::new(mask, [rows, 1, 1, len]), &device);
        scores = scores.mask_fill(mask, f32::MIN);
    }
    softmax(scores, 3).matmul(view(values)).reshape([rows, heads * head_dim])
}
