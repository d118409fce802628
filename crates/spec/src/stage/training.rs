//! Keys that every stage which trains has in common, under the names of Hugging Face's `TrainingArguments`.

use crate::section::{choice, section};

section! {
    /// How a model is trained on a fixed data set.
    pub struct Training {
        /// Highest rate, reached after the warm-up.
        pub learning_rate: f64 = 5e-5 => above(0.0),
        /// Passes over the data.
        pub num_train_epochs: f64 = 1.0 => above(0.0),
        /// Optimiser steps; overrides `num_train_epochs` when above 0.
        pub max_steps: i64 = -1 => at_least(-1.0),
        /// Rows (for pairs: pairs) per forward-backward pass.
        pub per_device_train_batch_size: usize = 8 => at_least(1.0),
        /// Passes per optimiser step.
        pub gradient_accumulation_steps: usize = 1 => at_least(1.0),
        /// How the rate changes after the warm-up.
        pub lr_scheduler_type: LrScheduler = LrScheduler::Cosine,
        /// Steps over which the rate rises from 0.
        pub warmup_steps: u64 = 0,
        /// Decoupled weight decay (AdamW).
        pub weight_decay: f64 = 0.0 => at_least(0.0),
        /// Decay of the first moment.
        pub adam_beta1: f64 = 0.9 => at_least(0.0).below(1.0),
        /// Decay of the second moment.
        pub adam_beta2: f64 = 0.95 => at_least(0.0).below(1.0),
        /// Added to the root of the second moment.
        pub adam_epsilon: f64 = 1e-8 => above(0.0),
        /// Clip the global gradient norm to this; 0 = off.
        pub max_grad_norm: f64 = 1.0 => at_least(0.0),
        /// Checkpoint every so many optimiser steps.
        pub save_steps: u64 = 100 => at_least(1.0).execution(),
        /// Finished checkpoints kept.
        pub save_total_limit: usize = 2 => at_least(1.0).execution(),
    }
}

choice! {
    /// Learning-rate schedule after the linear warm-up.
    pub enum LrScheduler {
        /// Stays.
        Constant = "constant",
        /// A straight line to 0.
        Linear = "linear",
        /// Half a cosine to 0.
        Cosine = "cosine",
    }
}
