//! Causal grouped-query attention with rotary embedding over a padded batch.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::Tensor;

use crate::backend::HydraBackend;
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

/// The shape of causal grouped-query attention over the real tokens of a batch.
///
/// Tokens come packed, row after row without pads, so that everything but attention itself never computes
/// a pad. Attention lays each row out from column 0 to the width of the longest one; what lies beyond a
/// row's end is zero, and causality hides it from the row's tokens.
#[derive(Debug, Clone)]
pub struct Attention {
    /// Tokens of each row.
    pub lens: Vec<usize>,
    /// Packed index of each row's first token; one more than there are rows, the last is the total.
    pub firsts: Vec<usize>,
    /// Tokens of the longest row.
    pub cols: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; a divisor of `heads`.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Rotary tables for at least `cols` positions.
    pub rope: Arc<Rope>,
}

impl Attention {
    /// The attention of a model over rows of the given lengths.
    pub fn new(config: &LlamaConfig, rope: Arc<Rope>, lens: Vec<usize>) -> Self {
        let at = Self {
            lens,
            firsts: Vec::new(),
            cols: 0,
            heads: config.num_attention_heads,
            kv_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
            rope,
        };
        at.measured()
    }

    /// With what follows from the lengths filled in.
    pub(crate) fn measured(mut self) -> Self {
        self.cols = self.lens.iter().copied().max().unwrap_or(0);
        self.firsts = vec![0];
        let mut total = 0;
        for len in &self.lens {
            total += len;
            self.firsts.push(total);
        }
        self
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.lens.len()
    }

    /// Number of tokens.
    pub fn tokens(&self) -> usize {
        self.firsts[self.rows()]
    }

    /// Position of each token.
    pub fn positions(&self) -> Vec<u32> {
        self.lens.iter().flat_map(|&len| 0..len as u32).collect()
    }

    /// Index into `[rows · cols]` of each token.
    pub fn cells(&self) -> Vec<usize> {
        let row = |(row, &len): (usize, &usize)| row * self.cols..row * self.cols + len;
        self.lens.iter().enumerate().flat_map(row).collect()
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

/// Scores of this many bytes at most exist at once; batches whose scores are larger are done in parts.
const SCORES_BYTES: usize = 32 << 20;

/// Causal attention with rotary embedding: `q` is `[tokens, heads · d]`, `k` and `v` are
/// `[tokens, kv_heads · d]`; the result has the shape of `q`. Query heads that share a key head are
/// laid out one below the other, so that keys and values are never repeated.
pub fn forward<B: HydraBackend>(
    q: Tensor<B, 2>,
    k: Tensor<B, 2>,
    v: Tensor<B, 2>,
    at: &Attention,
) -> Tensor<B, 2> {
    let parts = at.parts().map(|(part, tokens)| {
        let Heads { q, k, v } = Heads::split([&q, &k, &v], &part, tokens);
        let weights = weights::<B>(q, k, &part);
        B::merge_heads(weights.matmul(v), &part, None)
    });
    Tensor::cat(parts.collect(), 0)
}

/// Gradients of q, k and v for the gradient of [`forward`]'s result. The attention weights are computed
/// again rather than kept.
pub fn backward<B: HydraBackend>(
    q: Tensor<B, 2>,
    k: Tensor<B, 2>,
    v: Tensor<B, 2>,
    at: &Attention,
    grad: Tensor<B, 2>,
) -> [Tensor<B, 2>; 3] {
    let (mut dq, mut dk, mut dv) = (Vec::new(), Vec::new(), Vec::new());
    let back = at.rope.inverse();
    for (part, tokens) in at.parts() {
        let grad = B::split_heads(grad.clone().slice(tokens.clone()), &part, None);
        let grad = part.stacked(grad);
        let Heads { q, k, v } = Heads::split([&q, &k, &v], &part, tokens);
        let weights = weights::<B>(q.clone(), k.clone(), &part);
        dv.push(B::merge_heads(weights.clone().transpose().matmul(grad.clone()), &part, None));
        let scores = B::softmax_backward(weights, grad.matmul(v.transpose())) * part.scale();
        dk.push(B::merge_heads(scores.clone().transpose().matmul(q), &part, Some(&back)));
        dq.push(B::merge_heads(scores.matmul(k), &part, Some(&back)));
    }
    [dq, dk, dv].map(|parts| Tensor::cat(parts, 0))
}

/// Rotated queries `[rows, kv_heads, group · cols, d]` and keys, and values, `[rows, kv_heads, cols, d]`.
struct Heads<B: HydraBackend> {
    q: Tensor<B, 4>,
    k: Tensor<B, 4>,
    v: Tensor<B, 4>,
}

impl<B: HydraBackend> Heads<B> {
    fn split(qkv: [&Tensor<B, 2>; 3], at: &Attention, tokens: Range<usize>) -> Self {
        let [q, k, v] = qkv.map(|x| x.clone().slice(tokens.clone()));
        Self {
            q: at.stacked(B::split_heads(q, at, Some(&at.rope))),
            k: B::split_heads(k, at, Some(&at.rope)),
            v: B::split_heads(v, at, None),
        }
    }
}

/// `softmax(q · kᵀ / √d)` over the keys that each query may see, `[rows, kv_heads, group · cols, cols]`.
fn weights<B: HydraBackend>(q: Tensor<B, 4>, k: Tensor<B, 4>, at: &Attention) -> Tensor<B, 4> {
    let scores = q.matmul(k.transpose());
    B::causal_softmax(scores, at)
}

impl Attention {
    /// The batch in parts of whole rows, each with its range of tokens.
    fn parts(&self) -> impl Iterator<Item = (Self, Range<usize>)> {
        let per_row = 4 * self.heads * self.cols * self.cols;
        let step = (SCORES_BYTES / per_row.max(1)).clamp(1, self.rows().max(1));
        (0..self.rows()).step_by(step).map(move |first| {
            let last = (first + step).min(self.rows());
            let part = Self {
                lens: self.lens[first..last].to_vec(),
                firsts: Vec::new(),
                rope: self.rope.clone(),
                ..*self
            };
            (part.measured(), self.firsts[first]..self.firsts[last])
        })
    }

    /// `[rows, heads, cols, d]` to `[rows, kv_heads, group · cols, d]`.
    fn stacked<B: HydraBackend>(&self, x: Tensor<B, 4>) -> Tensor<B, 4> {
        x.reshape([self.rows(), self.kv_heads, self.group() * self.cols, self.head_dim])
    }
}
