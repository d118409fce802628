//! The operations of [`HydraBackend`] under automatic differentiation.

use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;

use crate::backend::HydraBackend;

impl<B: HydraBackend, C: CheckpointStrategy> HydraBackend for Autodiff<B, C> {}
