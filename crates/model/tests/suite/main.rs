//! Tests of the model crate as its users see it; one binary, so that burn is linked once.

mod damaged;
mod files;
mod generation;
mod golden;
mod gradients;
mod invariance;
mod memory;
mod tiny;
