//! Random initial weights that depend on a seed and the parameter's name only.

use burn::tensor::{Tensor, TensorData};
use rand::RngCore;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::backend::HydraBackend;

/// A generator of its own for each `(seed, name)`, so that no parameter depends on the order of creation.
fn rng(seed: u64, name: &str) -> ChaCha8Rng {
    let mut hasher = blake3::Hasher::new_derive_key("hydra-pipeline 2026 initial weights");
    hasher.update(&seed.to_le_bytes());
    hasher.update(name.as_bytes());
    ChaCha8Rng::from_seed(*hasher.finalize().as_bytes())
}

/// Uniform in (0, 1], never 0 so that its logarithm is finite.
fn unit(rng: &mut ChaCha8Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// `[rows, cols]` of normal values with mean 0 (Box–Muller).
pub fn normal<B: HydraBackend>(
    seed: u64,
    name: &str,
    shape: [usize; 2],
    std: f64,
    device: &B::Device,
) -> Tensor<B, 2> {
    let mut rng = rng(seed, name);
    fill(shape, device, || {
        let (radius, angle) = ((-2.0 * unit(&mut rng).ln()).sqrt(), std::f64::consts::TAU * unit(&mut rng));
        std * radius * angle.cos()
    })
}

/// `[rows, cols]` of uniform values in ±`bound`.
pub fn uniform<B: HydraBackend>(
    seed: u64,
    name: &str,
    shape: [usize; 2],
    bound: f64,
    device: &B::Device,
) -> Tensor<B, 2> {
    let mut rng = rng(seed, name);
    fill(shape, device, || bound * (2.0 * unit(&mut rng) - 1.0))
}

fn fill<B: HydraBackend>(
    shape: [usize; 2],
    device: &B::Device,
    mut value: impl FnMut() -> f64,
) -> Tensor<B, 2> {
    let values: Vec<f32> = (0..shape[0] * shape[1]).map(|_| value() as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}
