//! Which rows an optimiser step sees, and rows as padded batches.

use burn::tensor::{Int, Tensor, TensorData};
use model::HydraBackend;
use spec::stage::Training;

/// The endless sequence of rows: epoch after epoch, each a permutation of its own. Where a step begins
/// follows from its number, so there is no cursor that could be lost.
#[derive(Debug)]
pub struct Stream {
    rows: usize,
    seed: u64,
    /// The epoch whose order is at hand.
    epoch: Option<(u64, Vec<usize>)>,
}

impl Stream {
    /// A stream over `rows` rows; at least one.
    pub fn new(rows: usize, seed: u64) -> Self {
        Self { rows, seed, epoch: None }
    }

    /// Rows of step `step` (from 0), `count` per step.
    pub fn step(&mut self, step: u64, count: usize) -> Vec<usize> {
        let first = step * count as u64;
        (first..first + count as u64).map(|position| self.at(position)).collect()
    }

    fn at(&mut self, position: u64) -> usize {
        let (epoch, offset) = (position / self.rows as u64, (position % self.rows as u64) as usize);
        if self.epoch.as_ref().is_none_or(|(at_hand, _)| *at_hand != epoch) {
            self.epoch = Some((epoch, data::order(self.rows, self.seed, epoch)));
        }
        self.epoch.as_ref().map_or(0, |(_, order)| order[offset])
    }
}

/// Rows per optimiser step.
pub fn rows_per_step(training: &Training) -> usize {
    training.per_device_train_batch_size * training.gradient_accumulation_steps
}

/// Optimiser steps of a run over `rows` rows; at least one.
pub fn total_steps(training: &Training, rows: usize) -> u64 {
    if training.max_steps > 0 {
        return training.max_steps as u64;
    }
    let passes = training.num_train_epochs * rows as f64;
    ((passes / rows_per_step(training) as f64).round() as u64).max(1)
}

/// The entries `at` of `[n, hidden]`.
pub fn pick<B: HydraBackend>(hidden: Tensor<B, 2>, at: &[usize]) -> Tensor<B, 2> {
    let count = at.len();
    let at: Vec<i32> = at.iter().map(|&index| index as i32).collect();
    let at = Tensor::<B, 1, Int>::from_data(TensorData::new(at, [count]), &hidden.device());
    hidden.select(0, at)
}

/// Numbers as a tensor `[n]`.
pub fn tensor<B: HydraBackend>(values: Vec<f32>, device: &B::Device) -> Tensor<B, 1> {
    let count = values.len();
    Tensor::from_data(TensorData::new(values, [count]), device)
}

/// A tensor `[n]` as numbers.
pub fn numbers<B: HydraBackend>(tensor: Tensor<B, 1>) -> Vec<f32> {
    tensor.into_data().convert::<f32>().iter::<f32>().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a5_the_order_of_a_step_follows_from_its_number_alone() {
        let mut through = Stream::new(10, 7);
        let all: Vec<Vec<usize>> = (0..9).map(|step| through.step(step, 4)).collect();
        for step in (0..9).rev() {
            assert_eq!(Stream::new(10, 7).step(step, 4), all[step as usize]);
        }
        let flat: Vec<usize> = all.concat();
        for epoch in flat.chunks_exact(10) {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..10).collect::<Vec<_>>());
        }
        assert_ne!(flat[..10], flat[10..20]);
    }

    #[test]
    fn steps_from_epochs_or_from_max_steps() {
        let mut training = Training { per_device_train_batch_size: 4, ..Training::default() };
        training.gradient_accumulation_steps = 2;
        training.num_train_epochs = 2.0;
        assert_eq!(total_steps(&training, 100), 25);
        training.max_steps = 3;
        assert_eq!(total_steps(&training, 100), 3);
        training.max_steps = -1;
        assert_eq!(total_steps(&training, 1), 1);
    }
}
