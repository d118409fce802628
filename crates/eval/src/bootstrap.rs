//! Intervals: percentile bootstrap with a fixed seed, and Wilson's for shares.

use rand::Rng;

use crate::summary::Interval;

/// Resamples behind every reported interval.
pub const RESAMPLES: usize = 2000;

/// Percentile 95 % intervals of several statistics of the same `n` units (prompts).
///
/// `statistic` is given the drawn unit indices, `n` of them, and returns one value per statistic; the
/// point estimates come from the units as they are. One stream drives all statistics, so that they are
/// resampled together. Empty for `n = 0`.
pub fn percentile(
    n: usize,
    seed: u64,
    label: &str,
    mut statistic: impl FnMut(&[usize]) -> Vec<f64>,
) -> Vec<Interval> {
    if n == 0 {
        return Vec::new();
    }
    let mut drawn: Vec<usize> = (0..n).collect();
    let means = statistic(&drawn);
    let mut rng = crate::rng::rng(seed, &["bootstrap", label]);
    let mut values = vec![Vec::with_capacity(RESAMPLES); means.len()];
    for _ in 0..RESAMPLES {
        drawn.iter_mut().for_each(|unit| *unit = rng.random_range(0..n));
        for (column, value) in values.iter_mut().zip(statistic(&drawn)) {
            column.push(value);
        }
    }
    let interval = |(mean, column): (f64, &mut Vec<f64>)| {
        column.sort_by(f64::total_cmp);
        Interval { mean, low: quantile(column, 0.025), high: quantile(column, 0.975), n }
    };
    means.into_iter().zip(values.iter_mut()).map(interval).collect()
}

/// Quantile of sorted values with linear interpolation, as numpy's default.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let position = q * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}

/// Wilson's 95 % score interval of a share; `successes` may be fractional (ties count half).
/// Source: Wilson 1927; with z = 1.959964.
pub fn wilson(successes: f64, n: usize) -> Interval {
    const Z: f64 = 1.959_963_984_540_054;
    if n == 0 {
        return Interval { mean: f64::NAN, low: 0.0, high: 1.0, n };
    }
    let (count, share) = (n as f64, successes / n as f64);
    let scale = 1.0 + Z * Z / count;
    let centre = (share + Z * Z / (2.0 * count)) / scale;
    let half = Z / scale * (share * (1.0 - share) / count + Z * Z / (4.0 * count * count)).sqrt();
    Interval { mean: share, low: (centre - half).max(0.0), high: (centre + half).min(1.0), n }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(values: &[f64], drawn: &[usize]) -> Vec<f64> {
        vec![drawn.iter().map(|&i| values[i]).sum::<f64>() / drawn.len() as f64]
    }

    #[test]
    fn quantile_is_numpys() {
        // numpy.quantile([1, 2, 4, 8], [.025, .5, .975])
        let v = [1.0, 2.0, 4.0, 8.0];
        assert!((quantile(&v, 0.025) - 1.075).abs() < 1e-12);
        assert!((quantile(&v, 0.5) - 3.0).abs() < 1e-12);
        assert!((quantile(&v, 0.975) - 7.7).abs() < 1e-12);
    }

    #[test]
    fn same_seed_same_interval_other_seed_another() {
        let values: Vec<f64> = (0..50).map(|i| f64::from(i % 7)).collect();
        let run = |seed| percentile(50, seed, "x", |d| mean(&values, d));
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn interval_has_about_the_normal_width() {
        // 200 coin values: standard error 0.5/sqrt(200) = 0.03536; the bootstrap agrees within 10 %.
        let values: Vec<f64> = (0..200).map(|i| f64::from(i % 2)).collect();
        let ci = percentile(200, 7, "coin", |d| mean(&values, d))[0];
        let width = ci.high - ci.low;
        assert!((width / (2.0 * 1.96 * 0.035_36) - 1.0).abs() < 0.1, "{ci:?}");
        assert_eq!(ci.mean, 0.5);
    }

    #[test]
    fn wilson_golden() {
        // statsmodels proportion_confint(8, 10, method="wilson")
        let ci = wilson(8.0, 10);
        assert!((ci.low - 0.490_162_471_562_875_4).abs() < 1e-9, "{ci:?}");
        assert!((ci.high - 0.943_317_848_545_613_3).abs() < 1e-9, "{ci:?}");
        let all = wilson(10.0, 10);
        assert!((all.high - 1.0).abs() < 1e-12 && all.low > 0.7 && all.low < 0.73);
    }
}
