//! The quickstart, small enough for a test: it runs, runs again as a no-op, and survives being killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use e2e::{assert_same_results, expect, kill_tree, pipeline, repository, settings};
use testkit::Project;

/// The quickstart with a model and a world of toy size; every stage still has several steps.
const SMALL: &[&str] = &[
    "stages.base.questions=300",
    "stages.base.hidden_size=32",
    "stages.base.intermediate_size=64",
    "stages.base.num_hidden_layers=2",
    "stages.base.per_device_train_batch_size=16",
    "stages.base.max_steps=24",
    "stages.base.save_steps=4",
    "stages.data.questions=200",
    "stages.data.eval=24",
    "stages.sft.per_device_train_batch_size=16",
    "stages.sft.max_steps=16",
    "stages.sft.save_steps=3",
    "stages.reward.min_accuracy=0",
    "stages.ppo.total_episodes=96",
    "stages.ppo.batch_size=8",
    "stages.ppo.per_device_train_batch_size=8",
    "stages.ppo.save_steps=2",
    "stages.judge_model.per_device_train_batch_size=16",
    "stages.judge_model.max_steps=16",
    "stages.judge_model.save_steps=3",
    "stages.judge_check.min_accuracy=0",
    "stages.answers.batch_size=6",
];

/// In the order in which they run.
const STAGES: &[&str] =
    &["base", "data", "sft", "reward", "ppo", "judge_model", "judge_check", "answers", "judge", "rouge", "report"];

/// Kills per stage: one right after it has started, one somewhat later if it is still running.
const KILLS: usize = 2;

fn arguments(file: &str) -> Vec<&str> {
    let mut arguments = vec!["run", file];
    arguments.extend(settings(SMALL));
    arguments
}

#[test]
fn killed_at_every_stage_it_gives_the_same_bytes_and_then_does_nothing() {
    let file = repository().join("pipelines/quickstart.toml");
    let file = file.to_str().expect("the path is UTF-8");
    let (calm, stormy) = (Project::new(), Project::new());
    expect(calm.root(), &arguments(file), 0);
    let again = expect(calm.root(), &arguments(file), 0);
    let said = String::from_utf8_lossy(&again.stderr) + String::from_utf8_lossy(&again.stdout);
    assert!(said.contains("up to date"), "a run without work says so: {said}");

    let mut kills = 0;
    let mut hit = Vec::new();
    for (index, stage) in STAGES.iter().enumerate() {
        for attempt in 1..=KILLS {
            // From a fixed sequence, so that a failure can be repeated.
            let delay = Duration::from_millis(((index * 7919 + attempt * 104_729) % 97) as u64 * attempt as u64);
            let mut driver = start(stormy.root(), file);
            let reached = wait_for_attempt(stormy.root(), stage, attempt, &mut driver);
            if reached {
                std::thread::sleep(delay);
                hit.push(*stage);
            }
            kill_tree(driver.id());
            driver.wait().expect("the driver can be waited for");
            kills += 1;
        }
    }
    hit.dedup();
    assert_eq!(hit, STAGES, "every stage was under way at a kill");
    assert!(kills >= 20, "{kills} kills");
    expect(stormy.root(), &arguments(file), 0);
    assert_same_results(calm.root(), stormy.root());
    assert!(resumed(stormy.root()) >= 3, "stages went on from checkpoints");
}

fn start(dir: &Path, file: &str) -> Child {
    pipeline(dir, &arguments(file)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("pipeline starts")
}

/// Waits until a stage has its `number`-th attempt; false when the run ended before.
fn wait_for_attempt(dir: &Path, stage: &str, number: usize, driver: &mut Child) -> bool {
    loop {
        if attempts(dir, stage).len() >= number {
            return true;
        }
        if driver.try_wait().expect("the driver can be asked").is_some() {
            return attempts(dir, stage).len() >= number;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Attempt folders of a stage that a worker could have begun with.
fn attempts(dir: &Path, stage: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir.join(".pipeline/attempts")) else { return Vec::new() };
    let belongs = |path: &PathBuf| {
        let request = std::fs::read_to_string(path.join("request.json")).unwrap_or_default();
        serde_json::from_str::<serde_json::Value>(&request).is_ok_and(|value| value["stage"]["name"] == *stage)
    };
    entries.flatten().map(|entry| entry.path()).filter(belongs).collect()
}

/// Attempts that began at a checkpoint.
fn resumed(dir: &Path) -> usize {
    let all = STAGES.iter().flat_map(|stage| attempts(dir, stage));
    let from_checkpoint = |path: &PathBuf| {
        let request = std::fs::read_to_string(path.join("request.json")).unwrap_or_default();
        serde_json::from_str::<serde_json::Value>(&request).is_ok_and(|value| !value["resume_from"].is_null())
    };
    all.filter(from_checkpoint).count()
}
