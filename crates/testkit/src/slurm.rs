//! A real Slurm, which not every machine has.

use std::process::Command;

/// Whether a Slurm answers here. Where none does, one line says that the test is skipped, or, with
/// `PIPELINE_CI_STRICT=1`, the test fails. `.ci/slurm` starts one.
///
/// # Panics
/// Under `PIPELINE_CI_STRICT=1`, if no Slurm answers.
pub fn slurm() -> bool {
    let answer = Command::new("sinfo").args(["--noheader", "--format=%T"]).output();
    let up = ["idle", "mixed", "allocated"];
    if answer.is_ok_and(|said| up.iter().any(|state| String::from_utf8_lossy(&said.stdout).contains(state))) {
        return true;
    }
    let strict = std::env::var_os("PIPELINE_CI_STRICT").is_some_and(|value| value == "1");
    assert!(!strict, "no Slurm answers: .ci/slurm starts one");
    println!("skipped: no Slurm answers here");
    false
}
