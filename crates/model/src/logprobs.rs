//! Log-probabilities of chosen tokens, over chunks of positions so that `[n, vocab]` never exists.

use std::ops::Range;

use burn::tensor::Tensor;

use crate::backend::HydraBackend;

/// Logits of this many bytes at most exist at once.
const LOGITS_BYTES: usize = 8 << 20;

/// Ranges of positions whose logits fit.
fn chunks(positions: usize, vocab: usize) -> impl Iterator<Item = Range<usize>> {
    let step = (LOGITS_BYTES / (4 * vocab.max(1))).max(1);
    (0..positions).step_by(step).map(move |first| first..(first + step).min(positions))
}

/// `[n, hidden]`, `[vocab, hidden]` and `n` targets to `[n]`.
pub fn forward<B: HydraBackend>(
    hidden: Tensor<B, 2>,
    weight: Tensor<B, 2>,
    targets: &[u32],
    temperature: f64,
) -> Tensor<B, 1> {
    let ([n, _], [vocab, _]) = (hidden.dims(), weight.dims());
    assert_eq!(n, targets.len(), "one target per hidden state");
    if let Some(id) = targets.iter().find(|&&id| id as usize >= vocab) {
        panic!("token id {id} is outside the model's vocabulary of {vocab}");
    }
    let parts = chunks(n, vocab).map(|chunk| {
        let logits = logits::<B>(&hidden, &weight, chunk.clone(), temperature);
        B::pick_logprobs(logits, &targets[chunk])
    });
    let parts: Vec<Tensor<B, 1>> = parts.collect();
    if parts.is_empty() { Tensor::zeros([0], &hidden.device()) } else { Tensor::cat(parts, 0) }
}

/// Gradients of the hidden states and, if `want_weight`, of the head, for a gradient `[n]`. The logits
/// are computed again rather than kept.
pub fn backward<B: HydraBackend>(
    hidden: Tensor<B, 2>,
    weight: Tensor<B, 2>,
    targets: &[u32],
    temperature: f64,
    grad: Tensor<B, 1>,
    want_weight: bool,
) -> (Tensor<B, 2>, Option<Tensor<B, 2>>) {
    let [n, _] = hidden.dims();
    let (mut hidden_grad, mut weight_grad) = (Vec::new(), None);
    for chunk in chunks(n, weight.dims()[0]) {
        let logits = logits::<B>(&hidden, &weight, chunk.clone(), temperature);
        let grad = grad.clone().slice(chunk.clone()) / temperature;
        let grad = B::pick_logprobs_backward(logits, &targets[chunk.clone()], grad);
        hidden_grad.push(grad.clone().matmul(weight.clone()));
        if want_weight {
            let part = grad.transpose().matmul(hidden.clone().slice(chunk));
            weight_grad = Some(match weight_grad {
                None => part,
                Some(sum) => sum + part,
            });
        }
    }
    let hidden_grad = match hidden_grad.len() {
        0 => hidden.zeros_like(),
        _ => Tensor::cat(hidden_grad, 0),
    };
    (hidden_grad, weight_grad.or_else(|| want_weight.then(|| weight.zeros_like())))
}

fn logits<B: HydraBackend>(
    hidden: &Tensor<B, 2>,
    weight: &Tensor<B, 2>,
    chunk: Range<usize>,
    temperature: f64,
) -> Tensor<B, 2> {
    let logits = B::project(hidden.clone().slice(chunk), weight.clone());
    if temperature == 1.0 { logits } else { logits / temperature }
}
