//! Names the CPU backend, burn-flex, and nothing else: the one place where the generic code of `model`,
//! `train` and `stages` becomes machine code for it.

use std::path::Path;

use burn::backend::Flex;

/// Runs a worker process on the CPU; see [`stages::run_worker`].
pub fn run_worker(attempt_dir: &Path) -> i32 {
    stages::run_worker::<Flex>(attempt_dir, &Default::default())
}
