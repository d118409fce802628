//! Loops over rows of `f32` for the CPU backend.
//!
//! Work is split over threads by rows, and every sum runs in an order that does not depend on the number of
//! threads: the same input gives the same bytes everywhere.

use std::f32::consts::LOG2_E;

use rayon::prelude::*;

use crate::attention::Rope;

/// Fewer values than this are not worth waking other threads for.
const SERIAL: usize = 1 << 14;

/// Values per task.
const TASK: usize = 1 << 13;

/// Independent sums of one long sum, so that they fit one vector register.
const LANES: usize = 8;

/// Calls `f` with the index of each row of `width` values.
pub fn for_rows(values: &mut [f32], width: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    if values.is_empty() {
        return;
    }
    if values.len() <= SERIAL {
        values.chunks_mut(width).enumerate().for_each(|(row, values)| f(row, values));
        return;
    }
    let rows = (TASK / width).max(1);
    values.par_chunks_mut(rows * width).enumerate().for_each(|(task, values)| {
        for (row, values) in values.chunks_mut(width).enumerate() {
            f(task * rows + row, values);
        }
    });
}

/// As [`for_rows`] for two outputs whose rows have the widths `a.1` and `b.1`.
pub fn for_row_pairs(
    a: (&mut [f32], usize),
    b: (&mut [f32], usize),
    f: impl Fn(usize, &mut [f32], &mut [f32]) + Sync,
) {
    let ((a, width_a), (b, width_b)) = (a, b);
    if a.is_empty() {
        return;
    }
    let rows = if a.len() <= SERIAL { a.len() / width_a } else { (TASK / width_a).max(1) };
    let tasks = a.par_chunks_mut(rows * width_a).zip(b.par_chunks_mut(rows * width_b)).enumerate();
    tasks.for_each(|(task, (a, b))| {
        let pairs = a.chunks_mut(width_a).zip(b.chunks_mut(width_b)).enumerate();
        pairs.for_each(|(row, (a, b))| f(task * rows + row, a, b));
    });
}

/// Adds `row(i)` of `width` values for `0..rows`: tasks of a fixed number of rows, added in order.
pub fn sum_rows(rows: usize, width: usize, row: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    const ROWS: usize = 128;
    let tasks: Vec<Vec<f32>> = (0..rows.div_ceil(ROWS))
        .into_par_iter()
        .map(|task| {
            let mut sum = vec![0.0; width];
            (task * ROWS..((task + 1) * ROWS).min(rows)).for_each(|index| row(index, &mut sum));
            sum
        })
        .collect();
    let mut total = vec![0.0; width];
    for task in tasks {
        total.iter_mut().zip(task).for_each(|(total, value)| *total += value);
    }
    total
}

/// `Σ f(a[i], b[i])` in a fixed order.
fn sum2(a: &[f32], b: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            lanes[lane] += f(a[lane], b[lane]);
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(&a, &b)| f(a, b)).sum();
    lanes.iter().sum::<f32>() + rest
}

/// `Σ a[i] · b[i]`.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    sum2(a, b, |a, b| a * b)
}

/// `e^x` to about one unit in the last place, in a form that compilers turn into vector code: `2^n · e^r`
/// with `|r| ≤ ln 2 / 2` and a polynomial for `e^r` (the coefficients of Cephes' `expf`). Below −87 it is
/// `e^−87`, about 10⁻³⁸; NaN stays NaN.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    const LOW: f32 = -87.0;
    const HIGH: f32 = 88.0;
    /// Adding it rounds to an integer, which is then in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = if x < LOW { LOW } else { x };
    let x = if x > HIGH { HIGH } else { x };
    let shifted = x * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = p * r + coefficient;
    }
    let power = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    (p * r * r + r + 1.0) * f32::from_bits(power)
}

/// `1 / (1 + e^−x)`.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `1 / √(mean(x²) + ε)`.
pub fn inverse_rms(x: &[f32], eps: f32) -> f32 {
    (dot(x, x) / x.len() as f32 + eps).sqrt().recip()
}

/// `x · r · w` into `out`, `r` the inverse root mean square.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let scale = inverse_rms(x, eps);
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * weight;
    }
}

/// Gradient of `x`: `r · (g − x · r² · mean(g · x))` with `g = grad · w`.
pub fn rms_norm_backward(x: &[f32], weight: &[f32], eps: f32, grad: &[f32], out: &mut [f32]) {
    let scale = inverse_rms(x, eps);
    for ((out, grad), weight) in out.iter_mut().zip(grad).zip(weight) {
        *out = grad * weight;
    }
    let inner = dot(out, x) * scale * scale / x.len() as f32;
    for (out, x) in out.iter_mut().zip(x) {
        *out = (*out - x * inner) * scale;
    }
}

/// `silu(gate) · up` into `gate`.
pub fn silu_mul(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate = *gate * sigmoid(*gate) * up;
    }
}

/// Gradients of `gate` and `up`; `silu′ = σ + silu · (1 − σ)`.
pub fn silu_mul_backward(gate: &[f32], up: &[f32], grad: &[f32], dgate: &mut [f32], dup: &mut [f32]) {
    let inputs = gate.iter().zip(up).zip(grad);
    for ((dgate, dup), ((&gate, up), grad)) in dgate.iter_mut().zip(dup).zip(inputs) {
        let s = sigmoid(gate);
        let silu = gate * s;
        *dup = grad * silu;
        *dgate = grad * up * (s + silu * (1.0 - s));
    }
}

/// The largest value; NaN is skipped here and shows in the sums that follow.
fn max(values: &[f32]) -> f32 {
    let mut lanes = [f32::MIN; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = larger(lanes[lane], chunk[lane]);
        }
    }
    lanes.into_iter().chain(rest.iter().copied()).fold(f32::MIN, larger)
}

/// Replaces `values` by `e^(scale · (value − max))`; returns the sum and the maximum.
fn exp_shifted(values: &mut [f32], scale: f32) -> (f32, f32) {
    let top = max(values);
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = values.as_chunks_mut::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            chunk[lane] = exp((chunk[lane] - top) * scale);
            lanes[lane] += chunk[lane];
        }
    }
    let mut sum: f32 = lanes.iter().sum();
    for value in rest {
        *value = exp((*value - top) * scale);
        sum += *value;
    }
    (sum, top)
}

/// Softmax of `scale · values` in place.
pub fn softmax(values: &mut [f32], scale: f32) {
    let (sum, _) = exp_shifted(values, scale);
    let inverse = sum.recip();
    values.iter_mut().for_each(|value| *value *= inverse);
}

/// `weights · (grad − Σ weights · grad)` into `grad`.
pub fn softmax_backward(weights: &[f32], grad: &mut [f32]) {
    let inner = dot(weights, grad);
    for (grad, weight) in grad.iter_mut().zip(weights) {
        *grad = weight * (*grad - inner);
    }
}

/// `log softmax(logits)[target]`. The logits are spoilt.
pub fn log_softmax_at(logits: &mut [f32], target: usize) -> f32 {
    let chosen = logits[target];
    let (sum, top) = exp_shifted(logits, 1.0);
    chosen - top - sum.ln()
}

/// `grad · (onehot(target) − softmax(logits))` in place.
pub fn log_softmax_at_backward(logits: &mut [f32], target: usize, grad: f32) {
    let (sum, _) = exp_shifted(logits, 1.0);
    let factor = -grad / sum;
    logits.iter_mut().for_each(|value| *value *= factor);
    logits[target] += grad;
}

/// Rotates one head at one position.
pub fn rotate(x: &mut [f32], rope: &Rope, position: usize) {
    let half = rope.half;
    let (first, second) = x.split_at_mut(half);
    let cos = &rope.cos[position * half..][..half];
    let sin = &rope.sin[position * half..][..half];
    for (((first, second), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
        (*first, *second) = (*first * cos - *second * sin, *second * cos + *first * sin);
    }
}

/// One query head over the keys and values of a row: those of token `t` begin at `t · stride`.
pub fn attend(
    q: &[f32],
    keys: &[f32],
    values: &[f32],
    stride: usize,
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    let width = q.len();
    scores.clear();
    scores.extend(keys.chunks(stride).map(|key| dot(q, &key[..width])));
    softmax(scores, (width as f32).sqrt().recip());
    out.fill(0.0);
    for (score, value) in scores.iter().zip(values.chunks(stride)) {
        for (out, value) in out.iter_mut().zip(&value[..width]) {
            *out += score * value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_right_to_the_last_bits_and_keeps_nan() {
        for step in -8700..8800 {
            let x = step as f32 / 100.0;
            let (found, expected) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((found / expected - 1.0).abs() < 2e-7, "exp({x}) is {expected}, not {found}");
        }
        assert_eq!((exp(0.0), exp(-1e9) < 2e-38), (1.0, true));
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn a_nan_anywhere_in_a_softmax_shows() {
        for index in 0..11 {
            let mut values = vec![0.5; 11];
            values[index] = f32::NAN;
            softmax(&mut values, 1.0);
            assert!(values.iter().all(|value| value.is_nan()), "{values:?}");
        }
    }

    #[test]
    fn sums_do_not_depend_on_the_number_of_threads() {
        let sum = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
            pool.install(|| {
                sum_rows(5000, 7, |row, sum| {
                    for (col, sum) in sum.iter_mut().enumerate() {
                        *sum += ((row * 7 + col) as f32).sin();
                    }
                })
            })
        };
        assert_eq!(sum(1), sum(3));
    }
}
