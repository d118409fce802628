//! Optimisers over named parameters.

mod adamw;
mod gradients;

pub use adamw::{AdamW, AdamWConfig};
pub use gradients::Gradients;
