//! The next token of a row, chosen on the host.

use rand::RngCore;
use rand_chacha::ChaCha8Rng;

/// How completions are drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Tokens per completion at most, the stop token included.
    pub max_new_tokens: usize,
    /// Logits are divided by it; 0 means greedy.
    pub temperature: f64,
    /// Only the k most probable tokens; 0 means all.
    pub top_k: usize,
    /// Only the most probable tokens whose probabilities reach p together; 1 means all.
    pub top_p: f64,
    /// Tokens that end a completion.
    pub stop_ids: Vec<u32>,
}

impl Sampling {
    /// The most probable token each time.
    pub fn greedy(max_new_tokens: usize, stop_ids: Vec<u32>) -> Self {
        Self { max_new_tokens, temperature: 0.0, top_k: 0, top_p: 1.0, stop_ids }
    }

    /// One token from a row of logits. Draws exactly one number from `rng`, none when greedy.
    pub fn choose(&self, logits: &[f32], rng: &mut ChaCha8Rng) -> u32 {
        if self.temperature <= 0.0 {
            return argmax(logits);
        }
        let filtered = (self.top_k > 0 && self.top_k < logits.len()) || self.top_p < 1.0;
        let top = logits[argmax(logits) as usize];
        let weight = |&logit: &f32| ((f64::from(logit) - f64::from(top)) / self.temperature).exp();
        let uniform = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        if !filtered {
            let weights: Vec<f64> = logits.iter().map(weight).collect();
            return draw(&weights, uniform) as u32;
        }
        let (ids, weights) = self.filter(logits, weight);
        ids[draw(&weights, uniform)]
    }

    /// Candidates from the most probable on, ties by id, cut by top-k and then by top-p.
    fn filter(&self, logits: &[f32], weight: impl Fn(&f32) -> f64) -> (Vec<u32>, Vec<f64>) {
        let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
        ids.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b)));
        if self.top_k > 0 {
            ids.truncate(self.top_k);
        }
        let mut weights: Vec<f64> = ids.iter().map(|&id| weight(&logits[id as usize])).collect();
        if self.top_p < 1.0 {
            let limit = self.top_p * weights.iter().sum::<f64>();
            let mut reached = 0.0;
            let kept = weights
                .iter()
                .position(|w| {
                    reached += w;
                    reached >= limit
                })
                .map_or(weights.len(), |last| last + 1);
            ids.truncate(kept);
            weights.truncate(kept);
        }
        (ids, weights)
    }
}

/// The first index of the largest value; NaN is never the largest.
pub fn argmax(values: &[f32]) -> u32 {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] || values[best].is_nan() {
            best = index;
        }
    }
    best as u32
}

/// Inverse of the cumulative distribution at `uniform` in [0, 1).
fn draw(weights: &[f64], uniform: f64) -> usize {
    let target = uniform * weights.iter().sum::<f64>();
    let mut reached = 0.0;
    for (index, weight) in weights.iter().enumerate() {
        reached += weight;
        if reached > target {
            return index;
        }
    }
    // Rounding: the last one that can be drawn at all.
    weights.iter().rposition(|&weight| weight > 0.0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    const LOGITS: [f32; 5] = [1.0, 3.0, 2.0, 3.0, -1.0];

    fn sampling(temperature: f64, top_k: usize, top_p: f64) -> Sampling {
        Sampling { temperature, top_k, top_p, ..Sampling::greedy(1, vec![]) }
    }

    /// How often each token is drawn in 20 000 tries.
    fn shares(sampling: &Sampling) -> [f64; 5] {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut counts = [0.0; 5];
        for _ in 0..20_000 {
            counts[sampling.choose(&LOGITS, &mut rng) as usize] += 1.0 / 20_000.0;
        }
        counts
    }

    #[test]
    fn greedy_takes_the_first_of_equals_and_draws_no_number() {
        let (mut rng, untouched) = (ChaCha8Rng::seed_from_u64(1), ChaCha8Rng::seed_from_u64(1));
        assert_eq!(Sampling::greedy(1, vec![]).choose(&LOGITS, &mut rng), 1);
        assert_eq!(rng, untouched);
    }

    #[test]
    fn a58_without_filters_the_draws_follow_the_softmax() {
        for temperature in [0.5, 1.0, 2.0] {
            let weights = LOGITS.map(|l| (f64::from(l) / temperature).exp());
            let sum: f64 = weights.iter().sum();
            let found = shares(&sampling(temperature, 0, 1.0));
            for (found, weight) in found.iter().zip(weights) {
                assert!((found - weight / sum).abs() < 0.015, "{found} {}", weight / sum);
            }
        }
    }

    #[test]
    fn top_k_and_top_p_keep_the_most_probable_tokens_only() {
        let drawn = |sampling| shares(&sampling).map(|share| share > 0.0);
        assert_eq!(drawn(sampling(1.0, 1, 1.0)), [false, true, false, false, false]);
        assert_eq!(drawn(sampling(1.0, 3, 1.0)), [false, true, true, true, false]);
        assert_eq!(drawn(sampling(1.0, 99, 1.0)), [true; 5]);
        // Probabilities are .054 .397 .146 .397 .007 or so: two reach .75, three reach .9.
        assert_eq!(drawn(sampling(1.0, 0, 0.75)), [false, true, false, true, false]);
        assert_eq!(drawn(sampling(1.0, 0, 0.9)), [false, true, true, true, false]);
        assert_eq!(drawn(sampling(1.0, 0, 1e-9)), [false, true, false, false, false]);
    }

    #[test]
    fn filters_draw_exactly_one_number_too() {
        let mut rngs = [ChaCha8Rng::seed_from_u64(1), ChaCha8Rng::seed_from_u64(1)];
        sampling(1.0, 0, 1.0).choose(&LOGITS, &mut rngs[0]);
        sampling(1.0, 2, 0.9).choose(&LOGITS, &mut rngs[1]);
        assert_eq!(rngs[0], rngs[1]);
    }
}
