//! Randomness as a function of what it is for: a ChaCha8 stream keyed by a BLAKE3 hash.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The stream for `seed` and `labels`; the same inputs give the same stream on every machine.
pub(crate) fn rng(seed: u64, labels: &[&str]) -> ChaCha8Rng {
    let mut hasher = blake3::Hasher::new_derive_key("pipeline eval randomness v1");
    hasher.update(&seed.to_le_bytes());
    for label in labels {
        hasher.update(&(label.len() as u64).to_le_bytes());
        hasher.update(label.as_bytes());
    }
    ChaCha8Rng::from_seed(*hasher.finalize().as_bytes())
}
