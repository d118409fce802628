//! A program with CUDA, on a machine with or without a GPU.

use std::path::Path;

use burn::backend::Cuda;
use burn::backend::cuda::CudaDevice;
use stages::StageError;

use crate::driver;

/// The GPUs of this machine as a pipeline names them, `cuda:0` first. Empty without a driver.
pub fn devices() -> Vec<String> {
    (0..driver::gpus().unwrap_or(0)).map(name).collect()
}

/// Whether GPU number `index` is there. Burn panics on another thread where it is not, so ask first.
///
/// # Errors
/// [`StageError::NoDevice`] says what is missing.
pub fn probe(index: usize) -> Result<(), StageError> {
    let problem = match driver::gpus() {
        Ok(count) if index < count => return Ok(()),
        Ok(0) => "the driver finds no GPU".into(),
        Ok(count) => format!("the last GPU of this machine is `{}`", name(count - 1)),
        Err(problem) => problem,
    };
    Err(StageError::NoDevice { device: name(index), problem })
}

/// Runs a worker process on GPU number `index`, see [`stages::run_worker`]. Where [`probe`] finds an error, the
/// attempt fails with it.
pub fn run_worker(attempt_dir: &Path, index: usize) -> i32 {
    match probe(index) {
        Ok(()) => stages::run_worker::<Cuda>(attempt_dir, &CudaDevice::new(index)),
        Err(error) => stages::refuse(attempt_dir, &error),
    }
}

fn name(index: usize) -> String {
    format!("cuda:{index}")
}
