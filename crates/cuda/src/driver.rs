//! Asks the NVIDIA driver, which is opened at run time, how many GPUs there are.

// Calls into a C library; each has its reason.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};

use libloading::Library;

/// Names of the driver's library. The second comes with development packages only.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// The number of GPUs, or in words why the driver cannot be asked.
pub fn gpus() -> Result<usize, String> {
    gpus_by(&NAMES)
}

fn gpus_by(names: &[&str]) -> Result<usize, String> {
    // SAFETY: the library's initialisers are those of the driver, which burn loads in the same way.
    let library = names.iter().find_map(|name| unsafe { Library::new(*name) }.ok());
    let library = library.ok_or("this machine has no NVIDIA driver")?;
    let count = ask(&library);
    // The driver keeps threads and handlers; unloading it under them is not safe.
    std::mem::forget(library);
    count
}

fn ask(library: &Library) -> Result<usize, String> {
    let missing = |_| "the NVIDIA driver's library lacks a function".to_owned();
    // SAFETY: the signatures are those of cuda.h: CUresult cuInit(unsigned int flags) and
    // CUresult cuDeviceGetCount(int *count), the same in every version of the driver.
    let init =
        unsafe { library.get::<unsafe extern "C" fn(c_uint) -> c_int>(b"cuInit\0") }.map_err(missing)?;
    let get_count =
        unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDeviceGetCount\0") }
            .map_err(missing)?;
    let mut count: c_int = 0;
    // SAFETY: flags must be 0; `count` outlives the call.
    let code = match unsafe { init(0) } {
        0 => unsafe { get_count(&mut count) },
        code => code,
    };
    match code {
        0 => Ok(usize::try_from(count).unwrap_or(0)),
        // CUDA_ERROR_NO_DEVICE
        100 => Ok(0),
        code => Err(format!("the NVIDIA driver answers with CUDA error {code}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_driver_is_said() {
        assert_eq!(
            gpus_by(&["libnothing-of-this-name.so.1"]).unwrap_err(),
            "this machine has no NVIDIA driver"
        );
    }

    #[test]
    fn another_library_is_no_driver() {
        let problem = gpus_by(&["libc.so.6"]).unwrap_err();
        assert_eq!(problem, "the NVIDIA driver's library lacks a function");
    }

    #[test]
    fn asking_this_machine_never_panics() {
        if let Err(problem) = gpus() {
            println!("no GPU here: {problem}");
        }
    }
}
