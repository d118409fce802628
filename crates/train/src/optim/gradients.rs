//! The gradients of one optimiser step, by parameter name.

use std::collections::BTreeMap;

use burn::tensor::Tensor;
use model::HydraBackend;

/// Summed gradients; a parameter that took no part in the loss has none.
#[derive(Debug, Clone)]
pub struct Gradients<B: HydraBackend>(BTreeMap<String, Tensor<B, 2>>);

impl<B: HydraBackend> Default for Gradients<B> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<B: HydraBackend> Gradients<B> {
    /// Adds those of one more micro-batch.
    pub fn add(&mut self, more: BTreeMap<String, Tensor<B, 2>>) {
        for (name, gradient) in more {
            let sum = match self.0.remove(&name) {
                Some(sum) => sum + gradient,
                None => gradient,
            };
            self.0.insert(name, sum);
        }
    }

    /// The gradient of a parameter.
    pub fn get(&self, name: &str) -> Option<&Tensor<B, 2>> {
        self.0.get(name)
    }

    /// Euclidean norm over all of them, summed in the order of the names.
    pub fn norm(&self) -> f64 {
        let square = |gradient: &Tensor<B, 2>| {
            // Row sums first: a plain sum is not reproducible for very large tensors.
            let squares = (gradient.clone() * gradient.clone()).sum_dim(1).into_data();
            squares.iter::<f32>().map(f64::from).sum::<f64>()
        };
        self.0.values().map(square).sum::<f64>().sqrt()
    }

    /// Scales all of them so that the global norm is at most `max_norm`; 0 leaves them alone. Returns the
    /// norm before.
    pub fn clip(&mut self, max_norm: f64) -> f64 {
        let norm = self.norm();
        if max_norm > 0.0 && norm > max_norm {
            let scale = max_norm / (norm + 1e-6);
            for gradient in self.0.values_mut() {
                *gradient = gradient.clone() * scale;
            }
        }
        norm
    }
}
