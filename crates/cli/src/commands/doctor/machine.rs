//! This machine: processors, memory, GPUs, a scheduler.

use std::path::Path;

use super::Finding;
use crate::format;

pub fn check() -> Vec<Finding> {
    let mut findings = vec![processors()];
    findings.extend(memory());
    findings.push(gpus());
    findings.push(slurm());
    findings
}

fn processors() -> Finding {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let features = features();
    let words = if features.is_empty() { String::new() } else { format!(" with {}", features.join(", ")) };
    Finding::ok("processors", format!("{count}{words}"))
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<&'static str> {
    let all = [
        ("AVX2", std::arch::is_x86_feature_detected!("avx2")),
        ("FMA", std::arch::is_x86_feature_detected!("fma")),
        ("AVX-512", std::arch::is_x86_feature_detected!("avx512f")),
    ];
    all.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn features() -> Vec<&'static str> {
    Vec::new()
}

/// Memory in bytes below which even small models do not train.
const LITTLE: u64 = 1 << 30;

fn memory() -> Option<Finding> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    };
    let (total, mut free) = (bytes("MemTotal:")?, bytes("MemAvailable:")?);
    let limit = limit();
    free = free.min(limit.unwrap_or(u64::MAX));
    let bound = limit.filter(|limit| *limit < total);
    let bound = bound.map_or(String::new(), |limit| format!(", limited to {}", format::bytes(limit)));
    let message = format!("{} available of {}{bound}", format::bytes(free), format::bytes(total));
    Some(if free >= LITTLE {
        Finding::ok("memory", message)
    } else {
        Finding::warning("memory", message, "stages may be killed; close other programs")
    })
}

/// What a container may use.
fn limit() -> Option<u64> {
    std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?.trim().parse().ok()
}

fn gpus() -> Finding {
    let devices = cuda::devices();
    if !devices.is_empty() {
        return Finding::ok("GPUs", devices.join(", "));
    }
    let why = cuda::probe(0).err().map_or_else(String::new, |error| error.to_string());
    if Path::new("/dev/nvidiactl").exists() {
        let help =
            "see that `nvidia-smi` lists the GPUs, and that this program was built with `--features cuda`";
        return Finding::warning("GPUs", why, help);
    }
    Finding::ok("GPUs", format!("none, stages run on the processors ({why})"))
}

const SLURM: [&str; 4] = ["sbatch", "squeue", "scontrol", "scancel"];

fn slurm() -> Finding {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = |name: &&&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let found = SLURM.iter().filter(there).count();
    let missing: Vec<_> = SLURM.iter().filter(|name| !there(name)).copied().collect();
    match (found, missing.len()) {
        (0, _) => Finding::ok("Slurm", "not here; `kind = \"slurm\"` in [executor] needs it"),
        (_, 0) => Finding::ok("Slurm", "its commands are here"),
        _ => Finding::warning(
            "Slurm",
            format!("{} missing", missing.join(", ")),
            "install all of Slurm's client commands, or have PATH name their folder",
        ),
    }
}
