//! KL of the policy to the reference: per-token estimators and the controllers of its weight.

use spec::stage::{KlEstimator, Ppo};

/// Estimate of KL(policy ‖ reference) in nats at one sampled token.
///
/// `logprob` and `reference` are the token's log-probabilities under the two. After J. Schulman,
/// "Approximating KL divergence" (2020): k1 is unbiased, k2 has low variance and a bias, k3 is unbiased
/// and never negative.
pub fn estimate(estimator: KlEstimator, logprob: f32, reference: f32) -> f32 {
    let log_ratio = logprob - reference;
    match estimator {
        KlEstimator::K1 => log_ratio,
        KlEstimator::K2 => 0.5 * log_ratio * log_ratio,
        KlEstimator::K3 => (-log_ratio).exp_m1() + log_ratio,
    }
}

/// The weight of the KL penalty over a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Controller {
    /// The same weight throughout.
    Fixed {
        /// The weight, per nat.
        coef: f64,
    },
    /// A weight that is steered to a target KL (D. M. Ziegler et al., arXiv 1909.08593, section 2.2).
    Adaptive {
        /// The present weight, per nat.
        coef: f64,
        /// Wanted KL, nats per response.
        target: f64,
        /// Responses over which the weight reacts.
        horizon: f64,
    },
}

impl Controller {
    /// The controller that a configuration asks for.
    pub fn new(config: &Ppo) -> Self {
        let coef = config.kl_coef;
        if config.adaptive_kl {
            Self::Adaptive { coef, target: config.kl_target, horizon: config.kl_horizon }
        } else {
            Self::Fixed { coef }
        }
    }

    /// The present weight, per nat.
    pub fn coef(&self) -> f64 {
        match self {
            Self::Fixed { coef } | Self::Adaptive { coef, .. } => *coef,
        }
    }

    /// Reacts to the mean KL to the reference (nats per response) of `responses` responses. The relative
    /// error is clipped to ±0.2.
    pub fn observe(&mut self, kl: f64, responses: usize) {
        if let Self::Adaptive { coef, target, horizon } = self {
            let error = (kl / *target - 1.0).clamp(-0.2, 0.2);
            // Never below 0, however many responses come at once.
            *coef *= (1.0 + error * responses as f64 / *horizon).max(0.0);
        }
    }

    /// Takes up the weight saved in a checkpoint.
    pub(crate) fn restore(&mut self, saved: f64) {
        match self {
            Self::Fixed { coef } | Self::Adaptive { coef, .. } => *coef = saved,
        }
    }
}
