//! What will *happen*: the graph, fingerprints, and what is left to do. Pure functions over `spec`.
//!
//! [`Plan::new`] freezes a pipeline: stages in an order in which they can run, each with a fingerprint over
//! everything that can change its result. [`decide`] compares a plan with the [`Past`] and says what will
//! run and why. The disk is seen only through a [`FileHasher`], the past only through a [`Past`].

mod dirty;
mod error;
mod fingerprint;
mod freeze;
mod graph;
mod links;
mod parts;
mod planned;
mod renew;
mod select;
mod show;

pub use dirty::{Action, Artifact, Decision, PartChange, Past, Reason, changes, decide};
pub use error::PlanError;
pub use fingerprint::{FileHasher, format_version};
pub use links::Links;
pub use parts::Parts;
pub use planned::{Fingerprint, Plan, PlannedStage};
pub use select::Selection;
pub use show::{dot, mermaid};
