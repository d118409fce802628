//! Losses per token and per pair. Sums and normalisers are the caller's, so that a step's loss does not
//! depend on how the step was cut into micro-batches.

use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

/// `log(1 + eˣ)` without overflow or underflow: `max(x, 0) + log(1 + e^−|x|)`.
pub fn softplus<B: Backend>(x: Tensor<B, 1>) -> Tensor<B, 1> {
    x.clone().clamp_min(0.0) + x.abs().neg().exp().log1p()
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
