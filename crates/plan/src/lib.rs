//! What will *happen*: the graph, fingerprints, and what is left to do. Pure functions over `spec`.

mod planned;

pub use planned::{Fingerprint, PlannedStage};
