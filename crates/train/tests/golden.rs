//! Losses and estimators against numbers computed independently of this project.

use burn::backend::Flex;
use burn::tensor::Tensor;
use spec::stage::KlEstimator;
use train::{Controller, estimate, gae, pair_loss, policy_loss, token_rewards, value_loss, whiten};

type T = Tensor<Flex, 1>;

fn tensor<const N: usize>(values: [f32; N]) -> T {
    Tensor::from_floats(values, &Default::default())
}

fn numbers(tensor: T) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

fn close(found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{found:?} for {expected:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((f64::from(*found) - expected).abs() <= tolerance, "{found} for {expected}");
    }
}

fn mean(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len() as f64
}

#[test]
fn kl_estimators() {
    let pairs = [(-1.0, -1.5), (-2.0, -1.0), (-0.5, -0.5)];
    let by = |kind| pairs.map(|(logprob, reference)| estimate(kind, logprob, reference));
    close(&by(KlEstimator::K1), &[0.5, -1.0, 0.0], 1e-6);
    close(&by(KlEstimator::K2), &[0.125, 0.5, 0.0], 1e-6);
    close(&by(KlEstimator::K3), &[0.106531, 0.718282, 0.0], 1e-6);
}

#[test]
fn a59_adaptive_kl_coefficient() {
    let mut controller = Controller::Adaptive { coef: 0.2, target: 6.0, horizon: 10_000.0 };
    for (kl, expected) in [(12.0, 0.201_024), (3.0, 0.199_994_757), (6.0, 0.199_994_757)] {
        controller.observe(kl, 256);
        assert!((controller.coef() - expected).abs() < 1e-9, "{} for {expected}", controller.coef());
    }
    let mut fixed = Controller::Fixed { coef: 0.2 };
    fixed.observe(12.0, 256);
    assert_eq!(fixed.coef(), 0.2);
}

const ADVANTAGES: [f64; 4] = [0.7816, 0.728, 0.64, 0.6];
const RETURNS: [f64; 4] = [0.8816, 0.928, 0.94, 1.0];

#[test]
fn generalised_advantages_and_a83_what_is_after_the_end_plays_no_part() {
    let (advantages, returns) = gae(&[-0.01, 0.02, -0.03, 1.0], &[0.1, 0.2, 0.3, 0.4], 1.0, 0.95);
    close(&advantages, &ADVANTAGES, 1e-6);
    close(&returns, &RETURNS, 1e-6);
    assert_eq!(gae(&[], &[], 1.0, 0.95), (vec![], vec![]));
}

#[test]
fn a31_a127_the_score_is_at_the_last_token_and_nowhere_else() {
    assert_eq!(token_rewards(&[0.0, 0.0, 0.0], 0.1, 2.0), [0.0, 0.0, 2.0]);
    close(&token_rewards(&[1.0, -0.5], 0.1, 0.0), &[-0.1, 0.05], 1e-7);
    // A76: a score of 0 is a score.
    close(&token_rewards(&[1.0], 0.1, 0.0), &[-0.1], 1e-7);
    assert!(token_rewards(&[], 0.1, 2.0).is_empty());
}

#[test]
fn whitening_with_bessel_and_a74_tiny_sets() {
    let mut values = vec![ADVANTAGES.map(|value| value as f32).to_vec()];
    whiten(&mut values, true);
    close(&values[0], &[1.142131, 0.492256, -0.574703, -1.059685], 1e-5);
    for tiny in [vec![], vec![vec![]], vec![vec![3.0]]] {
        let mut same = tiny.clone();
        whiten(&mut same, true);
        assert_eq!(same, tiny);
    }
    let mut equal = vec![vec![2.0, 2.0, 2.0]];
    whiten(&mut equal, true);
    assert!(equal[0].iter().all(|value| value.abs() < 1e-3), "{equal:?}");
}

#[test]
fn clipped_policy_loss() {
    let (old, new) = ([-1.0, -2.0, -0.5, -3.0], [-0.7, -2.4, -0.5, -2.9]);
    let losses = numbers(policy_loss(tensor(new), tensor(old), tensor([1.0, -1.0, 0.5, -2.0]), 0.2));
    close(&losses, &[-1.2, 0.8, -0.5, 2.210342], 1e-5);
    assert!((mean(&losses) - 0.327585459).abs() < 1e-6);
}

#[test]
fn clipped_value_loss() {
    let returns = RETURNS.map(|value| value as f32);
    let (old, new) = ([0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.3, -0.2]);
    let losses = numbers(value_loss(tensor(new), tensor(old), tensor(returns), 0.2));
    assert!((mean(&losses) - 0.35918032).abs() < 1e-6, "{}", mean(&losses));
}

#[test]
fn pair_loss_and_a67_it_does_not_underflow() {
    let loss = |chosen, rejected| numbers(pair_loss(tensor([chosen]), tensor([rejected])))[0];
    assert!(((f64::from(loss(0.5, 0.0)) + f64::from(loss(-0.7, 0.0))) / 2.0 - 0.788631517).abs() < 1e-6);
    assert!((f64::from(loss(1.0, 1.0)) - std::f64::consts::LN_2).abs() < 1e-7);
    assert_eq!(loss(-200.0, 0.0), 200.0);
    assert_eq!(loss(200.0, 0.0), 0.0);
}
