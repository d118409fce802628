//! The operations of [`HydraBackend`] on the CPU.

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, TensorData, TensorPrimitive};

use crate::attention::{Attention, Rope};
use crate::backend::HydraBackend;
use crate::cache::CacheShape;
use crate::kernels;

/// A tensor whose values are contiguous in memory: [`values`] reads them.
fn host<const D: usize>(tensor: Tensor<Flex, D>) -> FlexTensor {
    tensor.into_primitive().tensor().to_contiguous()
}

fn values(tensor: &FlexTensor) -> &[f32] {
    tensor.storage()
}

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<Flex, D> {
    Tensor::from_data(TensorData::new(values, shape), &Default::default())
}

/// Changes a tensor in place when nothing else holds it.
fn update<const D: usize>(tensor: Tensor<Flex, D>, f: impl FnOnce(&mut [f32])) -> Tensor<Flex, D> {
    let mut tensor = host(tensor);
    f(tensor.storage_mut());
    Tensor::from_primitive(TensorPrimitive::Float(tensor))
}

/// The `index`-th of rows of `width` values.
fn row(values: &[f32], width: usize, index: usize) -> &[f32] {
    &values[index * width..][..width]
}

impl HydraBackend for Flex {
    fn rms_norm(x: Tensor<Self, 2>, weight: Tensor<Self, 2>, eps: f64) -> Tensor<Self, 2> {
        let [n, width] = x.dims();
        let (x, weight) = (host(x), host(weight));
        let mut out = vec![0.0; n * width];
        kernels::for_rows(&mut out, width, |i, out| {
            kernels::rms_norm(row(values(&x), width, i), values(&weight), eps as f32, out);
        });
        tensor(out, [n, width])
    }

    fn rms_norm_backward(
        x: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        eps: f64,
        grad: Tensor<Self, 2>,
        want_weight: bool,
    ) -> (Tensor<Self, 2>, Option<Tensor<Self, 2>>) {
        let ([n, width], eps) = (x.dims(), eps as f32);
        let (x, weight, grad) = (host(x), host(weight), host(grad));
        let (x, weight, grad) = (values(&x), values(&weight), values(&grad));
        let mut dx = vec![0.0; n * width];
        kernels::for_rows(&mut dx, width, |i, out| {
            kernels::rms_norm_backward(row(x, width, i), weight, eps, row(grad, width, i), out);
        });
        let dw = want_weight.then(|| {
            let sum = kernels::sum_rows(n, width, |i, sum| {
                let (x, grad) = (row(x, width, i), row(grad, width, i));
                let scale = kernels::inverse_rms(x, eps);
                for ((sum, x), grad) in sum.iter_mut().zip(x).zip(grad) {
                    *sum += grad * x * scale;
                }
            });
            tensor(sum, [1, width])
        });
        (tensor(dx, [n, width]), dw)
    }

    fn silu_mul(gate: Tensor<Self, 2>, up: Tensor<Self, 2>) -> Tensor<Self, 2> {
        let [_, width] = gate.dims();
        let up = host(up);
        update(gate, |gate| {
            kernels::for_rows(gate, width, |i, gate| {
                kernels::silu_mul(gate, row(values(&up), width, i));
            });
        })
    }

    fn silu_mul_backward(
        gate: Tensor<Self, 2>,
        up: Tensor<Self, 2>,
        grad: Tensor<Self, 2>,
    ) -> (Tensor<Self, 2>, Tensor<Self, 2>) {
        let [n, width] = gate.dims();
        let (gate, up, grad) = (host(gate), host(up), host(grad));
        let mut dgate = vec![0.0; n * width];
        let mut dup = vec![0.0; n * width];
        kernels::for_row_pairs((&mut dgate, width), (&mut dup, width), |i, dgate, dup| {
            let [gate, up, grad] = [&gate, &up, &grad].map(|x| row(values(x), width, i));
            kernels::silu_mul_backward(gate, up, grad, dgate, dup);
        });
        (tensor(dgate, [n, width]), tensor(dup, [n, width]))
    }

    fn rotate(x: Tensor<Self, 2>, positions: &[u32], rope: &Rope) -> Tensor<Self, 2> {
        let [_, width] = x.dims();
        update(x, |x| {
            kernels::for_rows(x, width, |i, x| {
                for head in x.chunks_mut(2 * rope.half) {
                    kernels::rotate(head, rope, positions[i] as usize);
                }
            });
        })
    }

    fn split_heads(x: Tensor<Self, 2>, at: &Attention, rope: Option<&Rope>) -> Tensor<Self, 4> {
        let ([_, width], d, cols) = (x.dims(), at.head_dim, at.cols);
        let (rows, heads) = (at.rows(), width / d);
        let x = host(x);
        let x = values(&x);
        let mut out = vec![0.0; rows * cols * width];
        // One (row, head) at a time: its columns are contiguous in the result.
        kernels::for_rows(&mut out, cols * d, |i, out| {
            let (row, head) = (i / heads, i % heads);
            for (position, out) in out.chunks_mut(d).take(at.lens[row]).enumerate() {
                let token = at.firsts[row] + position;
                out.copy_from_slice(&x[token * width + head * d..][..d]);
                if let Some(rope) = rope {
                    kernels::rotate(out, rope, position);
                }
            }
        });
        tensor(out, [rows, heads, cols, d])
    }

    fn merge_heads(x: Tensor<Self, 4>, at: &Attention, rope: Option<&Rope>) -> Tensor<Self, 2> {
        let (d, cols, tokens) = (at.head_dim, at.cols, at.tokens());
        let width = x.dims().iter().product::<usize>() / (at.rows() * cols).max(1);
        let heads = width / d;
        let x = host(x);
        let (x, cells) = (values(&x), at.cells());
        let mut out = vec![0.0; tokens * width];
        kernels::for_rows(&mut out, width, |token, out| {
            let (row, position) = (cells[token] / cols, cells[token] % cols);
            for (head, out) in out.chunks_mut(d).enumerate() {
                out.copy_from_slice(&x[((row * heads + head) * cols + position) * d..][..d]);
                if let Some(rope) = rope {
                    kernels::rotate(out, rope, position);
                }
            }
        });
        tensor(out, [tokens, width])
    }

    fn causal_softmax(scores: Tensor<Self, 4>, at: &Attention) -> Tensor<Self, 4> {
        let (cols, heads, scale) = (at.cols, at.heads, at.scale() as f32);
        update(scores, |scores| {
            kernels::for_rows(scores, cols, |i, scores| {
                let (row, query) = (i / (heads * cols), i % cols);
                let seen = if query < at.lens[row] { query + 1 } else { 0 };
                kernels::softmax(&mut scores[..seen], scale);
                scores[seen..].fill(0.0);
            });
        })
    }

    fn softmax_backward(weights: Tensor<Self, 4>, grad: Tensor<Self, 4>) -> Tensor<Self, 4> {
        let width = weights.dims()[3];
        let weights = host(weights);
        update(grad, |grad| {
            kernels::for_rows(grad, width, |i, grad| {
                kernels::softmax_backward(row(values(&weights), width, i), grad);
            });
        })
    }

    fn write_cache(cache: Tensor<Self, 3>, cells: &[usize], new: Tensor<Self, 2>) -> Tensor<Self, 3> {
        let [_, width] = new.dims();
        let new = host(new);
        update(cache, |cache| {
            for (&cell, new) in cells.iter().zip(values(&new).chunks(width)) {
                cache[cell * width..][..width].copy_from_slice(new);
            }
        })
    }

    fn attend_cache(
        q: Tensor<Self, 2>,
        keys: Tensor<Self, 3>,
        cached: Tensor<Self, 3>,
        at: &CacheShape,
    ) -> Tensor<Self, 2> {
        let ([rows, capacity, stride], d) = (keys.dims(), at.head_dim);
        let (width, group) = (at.heads * d, at.heads / at.kv_heads);
        let (q, keys, cached) = (host(q), host(keys), host(cached));
        let (q, keys, cached) = (values(&q), values(&keys), values(&cached));
        let mut out = vec![0.0; rows * width];
        kernels::for_rows(&mut out, width, |i, out| {
            let seen = i * capacity * stride..(i * capacity + at.lens[i]) * stride;
            let (keys, cached) = (&keys[seen.clone()], &cached[seen]);
            let mut scores = Vec::with_capacity(at.lens[i]);
            for (head, out) in out.chunks_mut(d).enumerate() {
                let first = head / group * d;
                let q = &row(q, width, i)[head * d..][..d];
                kernels::attend(q, &keys[first..], &cached[first..], stride, &mut scores, out);
            }
        });
        tensor(out, [rows, width])
    }

    fn pick_logprobs(logits: Tensor<Self, 2>, targets: &[u32]) -> Tensor<Self, 1> {
        let [n, vocab] = logits.dims();
        let mut picked = vec![0.0; n];
        update(logits, |logits| {
            kernels::for_row_pairs((logits, vocab), (&mut picked, 1), |i, logits, picked| {
                picked[0] = kernels::log_softmax_at(logits, targets[i] as usize);
            });
        });
        tensor(picked, [n])
    }

    fn pick_logprobs_backward(
        logits: Tensor<Self, 2>,
        targets: &[u32],
        grad: Tensor<Self, 1>,
    ) -> Tensor<Self, 2> {
        let [_, vocab] = logits.dims();
        let grad = host(grad);
        update(logits, |logits| {
            kernels::for_rows(logits, vocab, |i, logits| {
                let grad = values(&grad)[i];
                kernels::log_softmax_at_backward(logits, targets[i] as usize, grad);
            });
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{LlamaConfig, attention, init, plain};

    type B = Flex;

    /// Values with a spread of about 1.
    fn random(name: &str, shape: [usize; 2]) -> Tensor<B, 2> {
        init::normal(7, name, shape, 1.0, &Default::default())
    }

    #[track_caller]
    fn same<const D: usize>(found: Tensor<B, D>, expected: Tensor<B, D>) {
        assert_eq!(found.dims(), expected.dims());
        let (found, expected) = (host(found), host(expected));
        for (i, (f, e)) in values(&found).iter().zip(values(&expected)).enumerate() {
            assert!((f - e).abs() <= 1e-5 * e.abs().max(1.0), "{i}: {f} is not {e}");
        }
    }

    /// Rows of several lengths, one of them empty, with two query heads per key head.
    fn ragged() -> Attention {
        let config = LlamaConfig {
            num_attention_heads: 4,
            num_key_value_heads: 2,
            head_dim: 6,
            ..LlamaConfig::default()
        };
        Attention::new(&config, Arc::new(Rope::new(6, 1e4, 9)), vec![5, 9, 0, 1])
    }

    #[test]
    fn norm_and_activation_agree_with_plain_operations() {
        let shape = [700, 33];
        let [x, up, grad] = ["x", "up", "grad"].map(|name| random(name, shape));
        let weight = random("weight", [1, 33]);
        same(B::rms_norm(x.clone(), weight.clone(), 1e-5), plain::rms_norm(x.clone(), weight.clone(), 1e-5));
        let (dx, dw) = B::rms_norm_backward(x.clone(), weight.clone(), 1e-5, grad.clone(), true);
        let expected = plain::rms_norm_backward(x.clone(), weight, 1e-5, grad.clone());
        same(dx, expected.0);
        same(dw.expect("asked for") * 0.1, expected.1 * 0.1);
        same(B::silu_mul(x.clone(), up.clone()), plain::silu_mul(x.clone(), up.clone()));
        let (dgate, dup) = B::silu_mul_backward(x.clone(), up.clone(), grad.clone());
        let expected = plain::silu_mul_backward(x, up, grad);
        same(dgate, expected.0);
        same(dup, expected.1);
    }

    #[test]
    fn parts_of_attention_agree_with_plain_operations() {
        let at = ragged();
        let x = random("x", [at.tokens(), 24]);
        for rope in [None, Some(&*at.rope)] {
            let split = B::split_heads(x.clone(), &at, rope);
            same(split.clone(), plain::split_heads(x.clone(), &at, rope));
            same(B::merge_heads(split.clone(), &at, rope), plain::merge_heads(split, &at, rope));
        }
        let back = B::split_heads(x.clone(), &at, Some(&at.rope));
        same(B::merge_heads(back, &at, Some(&at.rope.inverse())), x);
        let scores = random("scores", [4 * 4 * 9, 9]).reshape([4, 2, 18, 9]);
        let found = B::causal_softmax(scores.clone(), &at).reshape([4, 4, 9, 9]);
        let expected = plain::causal_softmax(scores.clone(), &at).reshape([4, 4, 9, 9]);
        for (row, &len) in at.lens.iter().enumerate().filter(|(_, len)| **len > 0) {
            let real = [row..row + 1, 0..4, 0..len, 0..9];
            same(found.clone().slice(real.clone()), expected.clone().slice(real));
        }
        let grad = random("grad", [4 * 4 * 9, 9]).reshape([4, 2, 18, 9]);
        same(B::softmax_backward(scores.clone(), grad.clone()), plain::softmax_backward(scores, grad));
    }

    #[test]
    fn attention_over_packed_rows_is_that_of_each_row_alone() {
        let at = ragged();
        let shapes = [("q", 24), ("k", 12), ("v", 12), ("grad", 24)];
        let all = shapes.map(|(name, width)| random(name, [at.tokens(), width]));
        let [q, k, v, grad] = all.clone();
        let found = attention::forward(q.clone(), k.clone(), v.clone(), &at);
        let gradients = attention::backward(q, k, v, &at, grad);
        for row in 0..at.rows() {
            let tokens = at.firsts[row]..at.firsts[row + 1];
            if tokens.is_empty() {
                continue;
            }
            let alone = Attention { lens: vec![tokens.len()], ..at.clone() }.measured();
            let [q, k, v, grad] = all.clone().map(|x| x.slice(tokens.clone()));
            let expected = attention::forward(q.clone(), k.clone(), v.clone(), &alone);
            same(found.clone().slice(tokens.clone()), expected);
            let expected = attention::backward(q, k, v, &alone, grad);
            for (found, expected) in gradients.clone().into_iter().zip(expected) {
                same(found.slice(tokens.clone()), expected);
            }
        }
    }

    #[test]
    fn cache_and_log_probabilities_agree_with_plain_operations() {
        let zeros = || Tensor::<B, 3>::zeros([3, 5, 12], &Default::default());
        let new = random("new", [4, 12]);
        let cells = [0, 1, 5, 10];
        let keys = B::write_cache(zeros(), &cells, new.clone());
        same(keys.clone(), plain::write_cache(zeros(), &cells, new));
        let shape = CacheShape { lens: vec![2, 1, 1], heads: 4, kv_heads: 2, head_dim: 6 };
        let q = random("q", [3, 24]);
        same(
            B::attend_cache(q.clone(), keys.clone(), keys.clone(), &shape),
            plain::attend_cache(q, keys.clone(), keys, &shape),
        );
        let (logits, targets) = (random("logits", [3, 23]), [0, 22, 7]);
        let grad = random("grad", [1, 3]).reshape([3]);
        same(B::pick_logprobs(logits.clone(), &targets), plain::pick_logprobs(logits.clone(), &targets));
        same(
            B::pick_logprobs_backward(logits.clone(), &targets, grad.clone()),
            plain::pick_logprobs_backward(logits, &targets, grad),
        );
    }
}
