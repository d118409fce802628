//! Scalar heads: reward and value.

use std::path::Path;

use burn::tensor::Tensor;

use crate::backend::HydraBackend;
use crate::error::ModelError;
use crate::params::Parameters;
use crate::{init, weights};

/// A linear head with one output and no bias; its file holds the tensor `score.weight` of `[1, hidden]`.
#[derive(Debug, Clone)]
pub struct Head<B: HydraBackend> {
    weight: Tensor<B, 2>,
}

impl<B: HydraBackend> Head<B> {
    /// Normal initial weights with standard deviation `std`.
    pub fn init(hidden: usize, std: f64, seed: u64, device: &B::Device) -> Self {
        Self { weight: init::normal(seed, "score.weight", [1, hidden], std, device) }
    }

    /// A head of zeros: every score is 0.
    pub fn zeros(hidden: usize, device: &B::Device) -> Self {
        Self { weight: Tensor::zeros([1, hidden], device) }
    }

    /// A head with the given weight, `[1, hidden]`.
    pub fn from_weight(weight: Tensor<B, 2>) -> Self {
        Self { weight }
    }

    /// Width of the hidden states it reads.
    pub fn width(&self) -> usize {
        self.weight.dims()[1]
    }

    /// Hidden states `[n, hidden]` to scores `[n]`.
    pub fn forward(&self, hidden: Tensor<B, 2>) -> Tensor<B, 1> {
        // A product and a sum, not a matrix product with one column: see docs/concepts/roles-and-adapters.md.
        let rows = hidden.dims()[0];
        (hidden * self.weight.clone()).sum_dim(1).reshape([rows])
    }

    /// Reads a head of the given width; a missing file is an error (never a fresh head).
    pub fn load(file: &Path, width: usize, device: &B::Device) -> Result<Self, ModelError> {
        let skeleton = Self::zeros(width, device);
        weights::load(file, &skeleton, device, |_| false)
    }

    /// Writes the head to a safetensors file.
    pub fn save(&self, file: &Path) -> Result<(), ModelError> {
        weights::save(file, self)
    }
}

impl<B: HydraBackend> Parameters<B> for Head<B> {
    type On<C: HydraBackend> = Head<C>;

    fn visit<'a>(&'a self, f: &mut dyn FnMut(&str, &'a Tensor<B, 2>)) {
        f("score.weight", &self.weight);
    }

    fn map<C: HydraBackend>(&self, f: &mut dyn FnMut(&str, &Tensor<B, 2>) -> Tensor<C, 2>) -> Head<C> {
        Head { weight: f("score.weight", &self.weight) }
    }
}
