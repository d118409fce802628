//! A tiny pipeline on the real binary, and what must hold of its folder after any number of kills.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{expect, pipeline, tree};

/// Two stages that compute, the first with checkpoints, and one that sums up; a second or two in all.
pub const PIPELINE: &str = r#"
[pipeline]
name = "storm"

[executor]
min_free_disk = "0 B"
retry_delay = 0.01

[stages.base]
kind = "pretrain"
format = "synthetic-qa"
questions = 40
vocab_size = 300
hidden_size = 16
intermediate_size = 16
num_hidden_layers = 1
num_attention_heads = 2
num_key_value_heads = 2
max_position_embeddings = 128
max_length = 96
per_device_train_batch_size = 4
max_steps = 6
save_steps = 2

[stages.data]
kind = "prepare"
model = "base"
format = "synthetic-qa"
questions = 40
max_prompt_length = 48
max_response_length = 48
eval = 10

[stages.report]
kind = "report"
"#;

/// Number of stages in [`PIPELINE`].
pub const STAGES: usize = 3;

/// Asks workers to die or stop at a point, as `store::fault::VARIABLE` asks the driver.
pub const WORKER_VARIABLE: &str = "PIPELINE_WORKER_FAULT_POINT";

/// `pipeline run p.toml`, silent, with environment variables.
pub fn driver(dir: &Path, environment: &[(&str, &str)]) -> Child {
    let mut command = pipeline(dir, &["run", "p.toml"]);
    command.envs(environment.iter().copied()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("pipeline starts")
}

/// Sends a signal (`-CONT`) to processes; those that are gone do not matter.
pub fn signal(name: &str, pids: &[u32]) {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    _ = Command::new("kill").arg(name).args(pids).stderr(Stdio::null()).status();
}

/// Whether a process was stopped by a signal.
pub fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// Waits until the driver or one of its workers stands still, and says which; `None`: it ended before.
pub fn wait_for_stop(driver: &mut Child) -> Option<u32> {
    loop {
        if let Some(pid) = tree(driver.id()).into_iter().find(|&pid| is_stopped(pid)) {
            return Some(pid);
        }
        if driver.try_wait().expect("the driver can be asked").is_some() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Lets everything that stops go on, until the driver has ended; gives its exit code.
pub fn let_go(driver: &mut Child) -> Option<i32> {
    loop {
        if let Some(status) = driver.try_wait().expect("the driver can be asked") {
            return status.code();
        }
        let stopped: Vec<u32> = tree(driver.id()).into_iter().filter(|&pid| is_stopped(pid)).collect();
        if !stopped.is_empty() {
            signal("-CONT", &stopped);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Live processes whose current folder is `dir`.
pub fn processes(dir: &Path) -> Vec<u32> {
    let dir = dir.canonicalize().expect("the folder is there");
    let here = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == dir);
    let entries = std::fs::read_dir("/proc").expect("/proc can be read").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(here).collect()
}

/// How many workers began on each stage, over all runs.
pub fn begun(dir: &Path) -> BTreeMap<String, usize> {
    let mut begun = BTreeMap::new();
    let attempts = std::fs::read_dir(dir.join(".pipeline/attempts")).into_iter().flatten().flatten();
    for attempt in attempts.map(|entry| entry.path()) {
        let text = |name: &str| std::fs::read_to_string(attempt.join(name)).unwrap_or_default();
        let Ok(request) = serde_json::from_str::<serde_json::Value>(&text("request.json")) else { continue };
        let stage = request["stage"]["name"].as_str().unwrap_or_default().to_owned();
        *begun.entry(stage).or_default() += text("events.jsonl").matches("\"type\":\"started\"").count();
    }
    begun
}

/// Runs what is left to do, then again; panics unless all is made, at rest, and nothing needs unlocking.
pub fn assert_mended(dir: &Path, what: &str) {
    expect(dir, &["run", "p.toml"], 0);
    let again = expect(dir, &["run", "p.toml"], 0);
    let said = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(said.contains("up to date"), "{what}: {said}");
    assert_eq!(processes(dir), [] as [u32; 0], "{what}: processes are left");
    let runs = expect(dir, &["runs", "--json"], 0);
    let runs: serde_json::Value = serde_json::from_slice(&runs.stdout).expect("JSON");
    let states: Vec<_> = runs.as_array().expect("a list").iter().map(|run| run["state"].clone()).collect();
    assert!(states.iter().all(|state| state != "running"), "{what}: {states:?}");
    assert_eq!(files(&dir.join(".pipeline/owners")).len(), 0, "{what}: owners that are gone are listed");
    let artifacts = files(&dir.join(".pipeline/artifacts"));
    assert_eq!(artifacts.len(), STAGES, "{what}: {artifacts:?}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// A small generator, so that a failure can be repeated from its seed.
pub struct Random(pub u64);

impl Random {
    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// What `NAME` in the environment says, as a number.
pub fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}
