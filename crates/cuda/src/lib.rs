//! Names burn's CUDA backend and nothing else: the one place where the generic code of `model`, `train` and
//! `stages` becomes machine code for it.
//!
//! It does so behind the feature `backend`. Without it the same three functions say that this program has no
//! CUDA, so that building and testing the whole workspace compiles none of burn's CUDA crates.

#[cfg(not(feature = "backend"))]
mod absent;
#[cfg(feature = "backend")]
mod backend;
#[cfg(any(test, feature = "backend"))]
mod driver;

#[cfg(not(feature = "backend"))]
pub use absent::{devices, probe, run_worker};
#[cfg(feature = "backend")]
pub use backend::{devices, probe, run_worker};
