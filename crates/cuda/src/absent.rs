//! A program without CUDA.

use std::path::Path;

use stages::StageError;

/// No GPUs.
pub fn devices() -> Vec<String> {
    Vec::new()
}

/// # Errors
/// Always [`StageError::NoCuda`].
pub fn probe(index: usize) -> Result<(), StageError> {
    Err(StageError::NoCuda { device: format!("cuda:{index}") })
}

/// Fails the attempt with [`StageError::NoCuda`]; returns the process's exit code.
pub fn run_worker(attempt_dir: &Path, index: usize) -> i32 {
    stages::refuse(attempt_dir, &StageError::NoCuda { device: format!("cuda:{index}") })
}
