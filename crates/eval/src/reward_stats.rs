//! How well a reward model tells chosen from rejected answers.

use crate::bootstrap::wilson;
use crate::error::EvalError;
use crate::summary::RewardEvalSummary;

/// Statistics of `(chosen, rejected)` scores. The gate passes when accuracy reaches `min_accuracy`; no
/// pairs never pass a gate above 0. A score that is not finite is an error.
pub fn summarise(scores: &[(f64, f64)], min_accuracy: f64) -> Result<RewardEvalSummary, EvalError> {
    for (index, &(chosen, rejected)) in scores.iter().enumerate() {
        for (name, score) in [("chosen", chosen), ("rejected", rejected)] {
            if !score.is_finite() {
                return Err(EvalError::NotFinite {
                    what: format!("the {name} answer of pair {index}"),
                    score,
                });
            }
        }
    }
    let n = scores.len();
    let right = scores.iter().filter(|(chosen, rejected)| chosen > rejected).count();
    let ties = scores.iter().filter(|(chosen, rejected)| chosen == rejected).count();
    let accuracy = wilson(right as f64 + ties as f64 / 2.0, n);
    let (margin, margin_std) = moments(scores.iter().map(|(chosen, rejected)| chosen - rejected));
    let (chosen_mean, chosen_std) = moments(scores.iter().map(|pair| pair.0));
    let (rejected_mean, rejected_std) = moments(scores.iter().map(|pair| pair.1));
    let mean = if n == 0 { 0.0 } else { accuracy.mean };
    Ok(RewardEvalSummary {
        n,
        accuracy: mean,
        accuracy_low: accuracy.low,
        accuracy_high: accuracy.high,
        margin,
        margin_std,
        chosen_mean,
        chosen_std,
        rejected_mean,
        rejected_std,
        ties,
        min_accuracy,
        passed: mean >= min_accuracy,
    })
}

/// Mean and population standard deviation; zeros for no values.
fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = values.clone().count();
    if n == 0 {
        return (0.0, 0.0);
    }
    let mean = values.clone().sum::<f64>() / n as f64;
    let variance = values.map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
    (mean, variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_ties_as_half_and_keeps_zero_scores() {
        // a76: a score of 0.0 is a score.
        let s = summarise(&[(1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (2.0, -1.0)], 0.5).unwrap();
        assert_eq!((s.n, s.ties, s.accuracy, s.passed), (4, 1, 0.625, true));
        assert_eq!((s.chosen_mean, s.rejected_mean, s.margin), (0.875, 0.125, 0.75));
        assert!((s.margin_std - 1.479_019_945_774_904).abs() < 1e-12);
        assert!(s.accuracy_low < 0.625 && s.accuracy_high > 0.625);
    }

    #[test]
    fn nothing_or_nan_never_passes_a_gate() {
        assert!(!summarise(&[], 0.5).unwrap().passed);
        assert!(summarise(&[], 0.0).unwrap().passed);
        let error = summarise(&[(1.0, 0.0), (0.0, f64::NAN)], 0.0).unwrap_err();
        assert_eq!(error.to_string(), "the reward model gave the score NaN to the rejected answer of pair 1");
    }
}
