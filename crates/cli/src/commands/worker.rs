//! `pipeline worker ATTEMPT_DIR`: one attempt of a stage, started by the engine.

use std::path::Path;

use engine::protocol::{Request, file};
use spec::Device;

/// Runs the attempt on the backend of the device that it was given; gives the protocol's exit code.
pub fn worker(attempt_dir: &Path) -> u8 {
    let code = match device(attempt_dir) {
        Some(Device::Cuda(index)) => cuda::run_worker(attempt_dir, index),
        // A job's node knows what it has; a scheduler shows the job its own GPUs only.
        Some(Device::Auto) if !cuda::devices().is_empty() => cuda::run_worker(attempt_dir, 0),
        _ => cpu::run_worker(attempt_dir),
    };
    u8::try_from(code).unwrap_or(crate::failure::exit::STAGE_FAILED)
}

/// The device of the request. One that cannot be read is reported by whichever backend is started.
fn device(attempt_dir: &Path) -> Option<Device> {
    let request = std::fs::read(attempt_dir.join(file::REQUEST)).ok()?;
    let request: Request = serde_json::from_slice(&request).ok()?;
    request.device.parse().ok()
}
