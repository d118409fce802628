//! What a pipeline *says*: the typed form of the TOML file, with defaults, units and cross-stage rules.
//!
//! No I/O, no async, no burn: every other crate may depend on it, and the frozen stage structs here are
//! what `data`, `train` and `eval` take as their configuration (one struct from the file to the trainer).

mod pipeline;
pub mod stage;

pub use pipeline::{Device, Dtype, Lora, Model, Pipeline, PipelineMeta, TargetModules};
pub use stage::StageConfig;
