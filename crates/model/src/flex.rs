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
        let ([tokens, width], d, cols) = (x.dims(), at.head_dim, at.cols);
        let heads = width / d;
        let x = host(x);
        let x = values(&x);
        let mut out = vec![0.0; tokens * width];
        // One (row, head) at a time: its columns are contiguous in the result.
        kernels::for_rows(&mut out, cols * d, |i, out| {
            let (row, head) = (i / heads, i % heads);
            for (col, out) in out.chunks_mut(d).enumerate() {
                let token = row * cols + col;
                out.copy_from_slice(&x[token * width + head * d..][..d]);
                if let Some(rope) = rope {
                    kernels::rotate(out, rope, at.positions[token] as usize);
                }
            }
        });
        tensor(out, [at.rows, heads, cols, d])
    }

    fn merge_heads(x: Tensor<Self, 4>, at: &Attention, rope: Option<&Rope>) -> Tensor<Self, 2> {
        let (d, cols, tokens) = (at.head_dim, at.cols, at.rows * at.cols);
        let width = x.dims().iter().product::<usize>() / tokens;
        let heads = width / d;
        let x = host(x);
        let x = values(&x);
        let mut out = vec![0.0; tokens * width];
        kernels::for_rows(&mut out, width, |token, out| {
            let (row, col) = (token / cols, token % cols);
            for (head, out) in out.chunks_mut(d).enumerate() {
                out.copy_from_slice(&x[((row * heads + head) * cols + col) * d..][..d]);
                if let Some(rope) = rope {
                    kernels::rotate(out, rope, at.positions[token] as usize);
                }
            }
        });
        tensor(out, [tokens, width])
    }

    fn causal_softmax(scores: Tensor<Self, 4>, at: &Attention) -> Tensor<Self, 4> {
        let (cols, heads, scale) = (at.cols, at.heads, at.scale() as f32);
        update(scores, |scores| {
            kernels::for_rows(scores, cols, |i, scores| {
                let visible = at.visible(i / (heads * cols), i % cols);
                scores[..visible.start].fill(0.0);
                scores[visible.end..].fill(0.0);
                kernels::softmax(&mut scores[visible], scale);
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

    fn attend_cache(
        q: Tensor<Self, 2>,
        keys: Tensor<Self, 3>,
        cached: Tensor<Self, 3>,
        at: &CacheShape,
    ) -> Tensor<Self, 2> {
        let ([_, capacity, stride], d) = (keys.dims(), at.head_dim);
        let (rows, width, group) = (at.starts.len(), at.heads * d, at.heads / at.kv_heads);
        let (q, keys, cached) = (host(q), host(keys), host(cached));
        let (q, keys, cached) = (values(&q), values(&keys), values(&cached));
        let mut out = vec![0.0; rows * width];
        // A row's work is that of its whole cache: the pair gives each task few enough rows.
        kernels::for_rows(&mut out, width, |i, out| {
            let seen = (i * capacity + at.starts[i]) * stride..(i * capacity + at.len) * stride;
            let (keys, cached) = (&keys[seen.clone()], &cached[seen]);
            let mut scores = Vec::with_capacity(at.len);
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
