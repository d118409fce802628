//! The one door to randomness: every stream is derived from a seed and the names of what it is for.
//!
//! No stream is ever carried from one step to the next, so that resuming, batching and the order of
//! work cannot change what is drawn.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// One part of a stream's name: a word ("dropout", a stage's name, a sample id) or a number (a step).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label<'a> {
    Text(&'a str),
    Number(u64),
}

impl<'a> From<&'a str> for Label<'a> {
    fn from(text: &'a str) -> Self {
        Label::Text(text)
    }
}

impl<'a> From<&'a String> for Label<'a> {
    fn from(text: &'a String) -> Self {
        Label::Text(text)
    }
}

impl From<u64> for Label<'_> {
    fn from(number: u64) -> Self {
        Label::Number(number)
    }
}

/// The random stream named by `labels` under `seed`: `rng(seed, &["rollout".into(), step.into()])`.
///
/// The ChaCha key is the BLAKE3 hash of the seed and the labels, each with its type and length, so that
/// no two names run together (`["a", "b"]` is not `["ab"]`, and `["1"]` is not `[1]`).
pub fn rng(seed: u64, labels: &[Label<'_>]) -> ChaCha8Rng {
    let mut hasher = blake3::Hasher::new_derive_key("hydra-pipeline 2026 random stream");
    hasher.update(&seed.to_le_bytes());
    for label in labels {
        match label {
            Label::Text(text) => {
                hasher.update(b"t").update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes())
            }
            Label::Number(number) => hasher.update(b"n").update(&number.to_le_bytes()),
        };
    }
    ChaCha8Rng::from_seed(*hasher.finalize().as_bytes())
}

/// The order in which epoch `epoch` visits `n` samples: a permutation of `0..n` that depends on nothing
/// but its arguments, so that an epoch can be entered again in the middle.
pub fn order(n: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut rng = rng(seed, &["order".into(), epoch.into()]);
    let mut order: Vec<usize> = (0..n).collect();
    for last in (1..n).rev() {
        // Drawn as u64, which gives the same numbers on every platform.
        let other = rng.random_range(0..=last as u64) as usize;
        order.swap(last, other);
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::RngCore;

    use super::*;

    fn first(seed: u64, labels: &[Label<'_>]) -> u64 {
        rng(seed, labels).next_u64()
    }

    #[test]
    fn streams_with_different_names_differ() {
        let streams = [
            first(1, &["a".into(), "b".into()]),
            first(1, &["ab".into()]),
            first(1, &["b".into(), "a".into()]),
            first(1, &["1".into()]),
            first(1, &[1.into()]),
            first(2, &[1.into()]),
            first(1, &[]),
        ];
        for (i, a) in streams.iter().enumerate() {
            for b in &streams[i + 1..] {
                assert_ne!(a, b);
            }
        }
    }

    #[test]
    fn the_streams_are_the_same_for_ever() {
        // Golden: a change here changes every trained model.
        assert_eq!(order(8, 42, 0), GOLDEN_ORDER_EPOCH_0);
        assert_eq!(order(8, 42, 1), GOLDEN_ORDER_EPOCH_1);
    }
    const GOLDEN_ORDER_EPOCH_0: [usize; 8] = [0, 1, 7, 5, 3, 2, 6, 4];
    const GOLDEN_ORDER_EPOCH_1: [usize; 8] = [5, 2, 6, 0, 4, 3, 1, 7];

    proptest! {
        #[test]
        fn an_order_is_a_permutation(n in 0usize..300, seed: u64, epoch: u64) {
            let mut sorted = order(n, seed, epoch);
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..n).collect::<Vec<_>>());
        }

        #[test]
        fn epochs_are_shuffled_independently(n in 20usize..200, seed: u64, epoch in 0u64..1000) {
            prop_assert_eq!(order(n, seed, epoch), order(n, seed, epoch));
            prop_assert_ne!(order(n, seed, epoch), order(n, seed, epoch + 1));
            prop_assert_ne!(order(n, seed, epoch), order(n, seed.wrapping_add(1), epoch));
        }
    }
}
