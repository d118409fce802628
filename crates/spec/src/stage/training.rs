//! Keys that every stage which trains has in common, under the names of Hugging Face's `TrainingArguments`.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Training {
    pub learning_rate: f64,
    pub num_train_epochs: f64,
    /// Optimiser steps; overrides `num_train_epochs` when above 0.
    pub max_steps: i64,
    /// Rows (for pairs: pairs) per forward-backward pass.
    pub per_device_train_batch_size: usize,
    /// Passes per optimiser step.
    pub gradient_accumulation_steps: usize,
    pub lr_scheduler_type: LrScheduler,
    pub warmup_steps: u64,
    pub weight_decay: f64,
    pub adam_beta1: f64,
    pub adam_beta2: f64,
    pub adam_epsilon: f64,
    /// Clip the global gradient norm to this; 0 = off.
    pub max_grad_norm: f64,
    /// Checkpoint every so many optimiser steps. Execution-only: results do not depend on it.
    pub save_steps: u64,
    /// Finished checkpoints kept. Execution-only.
    pub save_total_limit: usize,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            learning_rate: 5e-5,
            num_train_epochs: 1.0,
            max_steps: -1,
            per_device_train_batch_size: 8,
            gradient_accumulation_steps: 1,
            lr_scheduler_type: LrScheduler::Cosine,
            warmup_steps: 0,
            weight_decay: 0.0,
            adam_beta1: 0.9,
            adam_beta2: 0.95,
            adam_epsilon: 1e-8,
            max_grad_norm: 1.0,
            save_steps: 100,
            save_total_limit: 2,
        }
    }
}

/// Learning-rate schedule after the linear warm-up; `linear` and `cosine` end at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LrScheduler {
    Constant,
    Linear,
    Cosine,
}
