//! What a pipeline *says*: the typed form of the TOML file, with defaults, units and cross-stage rules.
//!
//! No I/O, no async, no burn: every other crate may depend on it, and the frozen stage structs here are
//! what `data`, `train` and `eval` take as their configuration (one struct from the file to the trainer).
//!
//! [`parse`] reads a file and reports *all* mistakes at once. Every key is declared exactly once, in the
//! `section!` of its table, from which struct, defaults, serde form, reader and [`schema`] come.

mod executor;
mod key;
mod mistake;
mod nearest;
mod node;
mod overrides;
mod pipeline;
mod read;
mod rules;
mod schema;
mod section;
pub mod stage;
mod units;
mod value;

pub use executor::{Executor, ExecutorKind, Overrides, Place};
pub use key::{Bound, Choice, Effect, Key, Rule, Type};
pub use mistake::{Mistake, Problem, SpecErrors};
pub use nearest::nearest;
pub use overrides::Override;
pub use pipeline::{Common, Device, Dtype, Lora, Model, Pipeline, PipelineMeta, Stage, TargetModules};
pub use read::parse;
pub use schema::{KeySchema, Schema, Table, schema};
pub use section::Section;
pub use stage::StageConfig;
pub use units::Unit;
pub use value::Value;
