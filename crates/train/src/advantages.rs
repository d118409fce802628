//! Rewards per token, generalised advantage estimation and whitening.
//!
//! A response is a slice of exactly its own tokens, EOS included: there is no padding here, so nothing can
//! leak into or out of it.

/// Reward of each token: −`kl_coef` · `kl[t]`, and the score at the last token.
pub fn token_rewards(kl: &[f32], kl_coef: f64, score: f32) -> Vec<f32> {
    let mut rewards: Vec<f32> = kl.iter().map(|kl| (-kl_coef * f64::from(*kl)) as f32).collect();
    if let Some(last) = rewards.last_mut() {
        *last += score;
    }
    rewards
}

/// Advantages and returns of one response (J. Schulman et al., arXiv 1506.02438).
///
/// δ[t] = r[t] + γ·V[t+1] − V[t], A[t] = δ[t] + γλ·A[t+1], R = A + V; V and A after the last token are 0.
/// `rewards` and `values` have one entry a token.
pub fn gae(rewards: &[f32], values: &[f32], gamma: f64, lam: f64) -> (Vec<f32>, Vec<f32>) {
    assert_eq!(rewards.len(), values.len(), "one reward and one value a token");
    let (mut advantages, mut returns) = (vec![0.0; rewards.len()], vec![0.0; rewards.len()]);
    let (mut next_value, mut next_advantage) = (0.0, 0.0);
    for t in (0..rewards.len()).rev() {
        let value = f64::from(values[t]);
        let delta = f64::from(rewards[t]) + gamma * next_value - value;
        next_advantage = delta + gamma * lam * next_advantage;
        next_value = value;
        advantages[t] = next_advantage as f32;
        returns[t] = (next_advantage + value) as f32;
    }
    (advantages, returns)
}

/// Mean and variance of a set of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// The mean; 0 of nothing.
    pub mean: f64,
    /// Unbiased variance (n − 1 in the denominator); 0 of fewer than two numbers.
    pub variance: f64,
}

/// Mean and unbiased variance; defined for any number of values.
pub fn moments<'a>(values: impl Iterator<Item = &'a f32> + Clone) -> Moments {
    let n = values.clone().count() as f64;
    if n == 0.0 {
        return Moments { mean: 0.0, variance: 0.0 };
    }
    let mean = values.clone().map(|v| f64::from(*v)).sum::<f64>() / n;
    let squares = values.map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>();
    Moments { mean, variance: if n > 1.0 { squares / (n - 1.0) } else { 0.0 } }
}

/// Scales all tokens of all responses to variance 1 (TRL's `masked_whiten`, Bessel-corrected, ε = 1e-8)
/// and, with `centre`, shifts their mean to 0. Fewer than two tokens stay as they are.
pub fn whiten(responses: &mut [Vec<f32>], centre: bool) {
    if responses.iter().map(Vec::len).sum::<usize>() < 2 {
        return;
    }
    let Moments { mean, variance } = moments(responses.iter().flatten());
    let scale = 1.0 / (variance + 1e-8).sqrt();
    for value in responses.iter_mut().flatten() {
        let scaled = (f64::from(*value) - mean) * scale;
        *value = (if centre { scaled } else { scaled + mean }) as f32;
    }
}

/// 1 − Var(R − V) / Var(R): how much of the returns the values explain; 0 when the returns do not vary.
pub fn explained_variance(returns: &[f32], values: &[f32]) -> f64 {
    let errors: Vec<f32> = returns.iter().zip(values).map(|(r, v)| r - v).collect();
    let total = moments(returns.iter()).variance;
    if total > 0.0 { 1.0 - moments(errors.iter()).variance / total } else { 0.0 }
}
