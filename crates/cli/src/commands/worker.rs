//! `pipeline worker ATTEMPT_DIR`: one attempt of a stage, started by the engine.

use std::path::Path;

/// Runs the attempt on the backend of the device that it was given; gives the protocol's exit code.
pub fn worker(attempt_dir: &Path) -> u8 {
    let code = dispatch(attempt_dir);
    u8::try_from(code).unwrap_or(crate::failure::exit::STAGE_FAILED)
}

#[cfg(feature = "cuda")]
fn dispatch(attempt_dir: &Path) -> i32 {
    use engine::protocol::{Request, file};

    let request = std::fs::read(attempt_dir.join(file::REQUEST)).ok();
    let request: Option<Request> = request.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    if request.is_some_and(|request| request.device.starts_with("cuda")) {
        return cuda::run_worker(attempt_dir);
    }
    cpu::run_worker(attempt_dir)
}

#[cfg(not(feature = "cuda"))]
fn dispatch(attempt_dir: &Path) -> i32 {
    cpu::run_worker(attempt_dir)
}
