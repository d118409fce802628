//! Stages as jobs of a real Slurm (`.ci/slurm` starts one): what it knows of the jobs is what is counted.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use e2e::{assert_same_results, expect, pipeline};
use testkit::Project;

/// Three stages of toy size, with a checkpoint every few steps.
const PIPELINE: &str = r#"
[pipeline]
name = "jobs"

[executor]
kind = "slurm"
poll_interval = "200ms"
submit_rate = 50
retry_delay = "50ms"

[stages.base]
kind = "pretrain"
format = "synthetic-qa"
questions = 300
vocab_size = 300
hidden_size = 48
intermediate_size = 96
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
max_position_embeddings = 128
max_length = 96
per_device_train_batch_size = 32
max_steps = 80
save_steps = 5

[stages.data]
kind = "prepare"
model = "base"
format = "synthetic-qa"
questions = 300
max_prompt_length = 48
max_response_length = 48
split = { sft = 1 }
eval = 60

[stages.sft]
kind = "hydra-sft"
model = "base"
data = "data"
per_device_train_batch_size = 16
max_steps = 60
save_steps = 5
"#;

/// One test at a time has the node.
static NODE: Mutex<()> = Mutex::new(());

fn project(more: &str) -> Project {
    let project = Project::new();
    project.write("p.toml", format!("{PIPELINE}{more}"));
    project
}

/// Id, state and name of every job that was submitted for the project, as Slurm has them.
fn jobs(dir: &Path) -> Vec<(String, String, String)> {
    let output = Command::new("squeue")
        .args(["--noheader", "--states=all", "--sort=i", "--format=%i|%T|%j|%Z"])
        .output()
        .expect("squeue runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let dir = dir.canonicalize().expect("the folder is there");
    let own = text.lines().filter_map(|line| {
        let parts: Vec<&str> = line.splitn(4, '|').collect();
        let [id, state, name, folder] = parts.as_slice() else { panic!("{line}") };
        (Path::new(folder) == dir).then(|| ((*id).to_owned(), (*state).to_owned(), (*name).to_owned()))
    });
    own.collect()
}

/// Stages of the jobs, in the order of their submission; every job has a name of its own.
fn stages(dir: &Path) -> Vec<String> {
    let jobs = jobs(dir);
    let mut names: Vec<&str> = jobs.iter().map(|(_, _, name)| name.as_str()).collect();
    let stages = names.iter().map(|name| name.split('-').nth(2).expect("a stage").to_owned()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), jobs.len(), "nothing was submitted twice: {jobs:?}");
    stages
}

fn start(dir: &Path, args: &[&str]) -> Child {
    pipeline(dir, args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("pipeline starts")
}

/// Waits until `found` is; panics once the driver has ended without it.
fn wait_for<T>(driver: &mut Child, what: &str, found: impl Fn() -> Option<T>) -> T {
    loop {
        let ended = driver.try_wait().expect("the driver can be asked");
        if let Some(found) = found() {
            return found;
        }
        assert!(ended.is_none(), "the driver ended before there was {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a stage has kept a checkpoint in its `attempt`th attempt.
fn wait_for_checkpoint(dir: &Path, stage: &str, attempt: u32, driver: &mut Child) {
    wait_for(driver, "a checkpoint", || {
        let kept = |path: &PathBuf| {
            let request = std::fs::read_to_string(path.join("request.json")).unwrap_or_default();
            let request: serde_json::Value = serde_json::from_str(&request).unwrap_or_default();
            let mut entries = std::fs::read_dir(path.join("checkpoints")).into_iter().flatten().flatten();
            request["stage"]["name"] == *stage
                && request["attempt"] == attempt
                && entries.any(|entry| entry.file_name().to_string_lossy().starts_with("step-"))
        };
        let attempts = std::fs::read_dir(dir.join(".pipeline/attempts")).into_iter().flatten().flatten();
        attempts.map(|entry| entry.path()).find(kept)
    });
}

#[test]
fn e1_three_stages_are_three_jobs_though_the_driver_is_killed_or_stopped() {
    let _node = NODE.lock().unwrap_or_else(PoisonError::into_inner);
    if !testkit::slurm() {
        return;
    }
    let (calm, stormy) = (project(""), project(""));
    let (calm, stormy) = (calm.root(), stormy.root());
    expect(calm, &["run", "p.toml"], 0);
    assert_eq!(stages(calm), ["base", "data", "sft"]);
    let states: Vec<String> = jobs(calm).into_iter().map(|(_, state, _)| state).collect();
    assert!(states.iter().all(|state| state == "COMPLETED" || state == "COMPLETING"), "{states:?}");
    expect(calm, &["run", "p.toml"], 0);
    assert_eq!(stages(calm).len(), 3, "what is there is not made again");

    // Killed in the middle of a job, which goes on by itself and is taken up again.
    let mut driver = start(stormy, &["run", "p.toml"]);
    wait_for_checkpoint(stormy, "base", 1, &mut driver);
    driver.kill().expect("the driver can be killed");
    driver.wait().expect("it is dead");
    assert_eq!(stages(stormy), ["base"]);
    let mut driver = start(stormy, &["resume"]);
    wait_for_checkpoint(stormy, "sft", 1, &mut driver);
    assert_eq!(stages(stormy), ["base", "data", "sft"], "the first job was adopted");
    // Stopped in the middle of a job, which writes a checkpoint and ends.
    let signal = Command::new("kill").args(["-INT", &driver.id().to_string()]).status();
    assert!(signal.expect("kill runs").success());
    assert_eq!(driver.wait().expect("it ends").code(), Some(130));
    expect(stormy, &["resume"], 0);
    assert_eq!(stages(stormy), ["base", "data", "sft", "sft"]);
    assert_same_results(calm, stormy);
}

/// Ends the job that pushes ours out, whatever becomes of the test.
struct Rival(String);

impl Rival {
    /// A job that wants the whole node and may have it.
    fn new() -> Self {
        let args = ["--parsable", "--partition=high", "--cpus-per-task=16", "--output=/dev/null"];
        let output = Command::new("sbatch").args(args).args(["--wrap", "sleep 600"]).output();
        let output = output.expect("sbatch runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(String::from_utf8(output.stdout).expect("an id").trim().to_owned())
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        let _ = Command::new("scancel").arg(&self.0).status();
    }
}

#[test]
fn e118_a_preempted_job_goes_on_from_its_checkpoint_in_another_one() {
    let _node = NODE.lock().unwrap_or_else(PoisonError::into_inner);
    if !testkit::slurm() {
        return;
    }
    let partitions = Command::new("sinfo").args(["--noheader", "--format=%R"]).output().expect("sinfo runs");
    if !String::from_utf8_lossy(&partitions.stdout).lines().any(|name| name == "low") {
        println!("skipped: this Slurm has no partitions to try preemption with");
        return;
    }
    let project = project("[stages.base.executor]\npartition = \"low\"\n");
    let dir = project.root();
    // Another job costs none of the retries, of which there are none.
    let args = ["run", "p.toml", "--set", "executor.infra_retries=0", "--set", "stages.base.max_steps=120"];
    let mut driver = start(dir, &args);
    wait_for_checkpoint(dir, "base", 1, &mut driver);
    let rival = Rival::new();
    wait_for(&mut driver, "a second job", || (stages(dir).len() > 1).then_some(()));
    drop(rival);
    assert_eq!(driver.wait().expect("it ends").code(), Some(0));
    assert_eq!(stages(dir), ["base", "base", "data", "sft"]);
    let resumed =
        std::fs::read_dir(dir.join(".pipeline/attempts")).expect("attempts").flatten().any(|entry| {
            let request = std::fs::read_to_string(entry.path().join("request.json")).expect("a request");
            let request: serde_json::Value = serde_json::from_str(&request).expect("JSON");
            request["attempt"] == 2 && !request["resume_from"].is_null()
        });
    assert!(resumed, "the second job began at a checkpoint of the first");
}
