//! Losses per token and per pair. Sums and normalisers are the caller's, so that a step's loss does not
//! depend on how the step was cut into micro-batches.

use burn::tensor::Tensor;
use burn::tensor::activation::log_sigmoid;
use burn::tensor::backend::Backend;

/// `log(1 + eˣ)` without overflow or underflow, with the gradient ½ at 0: as `−log σ(−x)`, because
/// `max(x, 0) + log(1 + e^−|x|)` has no derivative there that autodiff could put together.
pub fn softplus<B: Backend>(x: Tensor<B, 1>) -> Tensor<B, 1> {
    log_sigmoid(x.neg()).neg()
}

/// `−log σ(chosen − rejected)` for each entry (L. Ouyang et al., arXiv 2203.02155, equation 1).
pub fn pair_loss<B: Backend>(chosen: Tensor<B, 1>, rejected: Tensor<B, 1>) -> Tensor<B, 1> {
    softplus(rejected - chosen)
}

/// `max(−A·ρ, −A·clip(ρ, 1 ± cliprange))` per token with `ρ = exp(new − old)` (J. Schulman et al.,
/// arXiv 1707.06347, equation 7). All arguments are `[tokens]`; only `new` carries a gradient.
pub fn policy_loss<B: Backend>(
    new: Tensor<B, 1>,
    old: Tensor<B, 1>,
    advantages: Tensor<B, 1>,
    cliprange: f64,
) -> Tensor<B, 1> {
    let ratio = (new - old).exp();
    let clipped = ratio.clone().clamp(1.0 - cliprange, 1.0 + cliprange);
    let descent = advantages.neg();
    (descent.clone() * ratio).max_pair(descent * clipped)
}

/// `½ max((V − R)², (clip(V, V_old ± cliprange) − R)²)` per token. Only `new` carries a gradient.
pub fn value_loss<B: Backend>(
    new: Tensor<B, 1>,
    old: Tensor<B, 1>,
    returns: Tensor<B, 1>,
    cliprange: f64,
) -> Tensor<B, 1> {
    // clip(V, old ± c) = old + clip(V − old, ±c)
    let clipped = old.clone() + (new.clone() - old).clamp(-cliprange, cliprange);
    let square = |x: Tensor<B, 1>| x.clone() * x;
    square(new - returns.clone()).max_pair(square(clipped - returns)) * 0.5
}

#[cfg(test)]
mod tests {
    use burn::backend::{Autodiff, Flex};

    use super::*;

    type Tracked = Autodiff<Flex>;

    #[test]
    fn a67_pair_loss_neither_underflows_nor_loses_its_gradient() {
        let device = Default::default();
        let differences = [-200.0, -0.7, 0.0, 0.5, 200.0];
        let chosen = Tensor::<Tracked, 1>::from_floats(differences, &device).require_grad();
        let loss = pair_loss(chosen.clone(), Tensor::zeros([5], &device));
        let found: Vec<f32> = loss.clone().into_data().iter::<f32>().collect();
        let gradients = loss.sum().backward();
        let slopes = chosen.grad(&gradients).expect("a gradient").into_data();
        for ((difference, loss), slope) in differences.into_iter().zip(found).zip(slopes.iter::<f32>()) {
            let x: f64 = difference;
            let expected = (-x).max(0.0) + (-x.abs()).exp().ln_1p();
            assert!((f64::from(loss) - expected).abs() < 1e-5, "{difference}: {loss} is not {expected}");
            // d/dx −log σ(x) = −σ(−x): −½ for equal scores.
            let expected = -1.0 / (1.0 + x.exp());
            assert!((f64::from(slope) - expected).abs() < 1e-5, "{difference}: slope {slope}");
        }
    }
}
