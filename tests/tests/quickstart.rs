//! The quickstart, small enough for a test: it runs, runs again as a no-op, and survives being killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use e2e::{assert_same_results, expect, kill_tree, pipeline, repository, settings};
use testkit::Project;

/// The quickstart with a model and a world of toy size; every stage still has several steps.
const SMALL: &[&str] = &[
    "stages.base.questions=300",
    "stages.base.hidden_size=48",
    "stages.base.intermediate_size=96",
    "stages.base.per_device_train_batch_size=32",
    "stages.base.max_steps=60",
    "stages.base.save_steps=5",
    "stages.data.questions=300",
    "stages.data.eval=60",
    "stages.sft.per_device_train_batch_size=16",
    "stages.sft.max_steps=60",
    "stages.sft.save_steps=5",
    "stages.reward.min_accuracy=0",
    "stages.ppo.total_episodes=320",
    "stages.ppo.batch_size=16",
    "stages.ppo.per_device_train_batch_size=8",
    "stages.ppo.save_steps=2",
    "stages.judge_model.per_device_train_batch_size=16",
    "stages.judge_model.max_steps=60",
    "stages.judge_model.save_steps=5",
    "stages.judge_check.min_accuracy=0",
    "stages.answers.batch_size=6",
];

/// Every stage with one that reads its result, and so begins only when it is over.
const STAGES: &[(&str, Option<&str>)] = &[
    ("base", Some("data")),
    ("data", Some("sft")),
    ("sft", Some("reward")),
    ("reward", Some("ppo")),
    ("ppo", Some("answers")),
    ("judge_model", Some("judge_check")),
    ("judge_check", Some("judge")),
    ("answers", Some("judge")),
    ("judge", Some("report")),
    ("rouge", Some("report")),
    ("report", None),
];

/// Kills per stage: right after it has started, when it has kept a checkpoint, and some time later.
const KILLS: usize = 3;

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
    for (index, (stage, reader)) in STAGES.iter().enumerate() {
        for attempt in 1..=KILLS {
            let mut driver = start(stormy.root(), file);
            if wait_for_attempt(stormy.root(), stage, attempt, *reader, &mut driver) {
                hit.push(*stage);
                if attempt == 2 {
                    wait_for_checkpoint(stormy.root(), stage, *reader, &mut driver);
                }
                // From a fixed sequence, so that a failure can be repeated.
                let delay = (index * 7919 + attempt * 104_729) % 41;
                std::thread::sleep(Duration::from_millis((delay * (attempt - 1)) as u64));
            }
            kill_tree(driver.id());
            driver.wait().expect("the driver can be waited for");
            kills += 1;
        }
    }
    hit.dedup();
    let all: Vec<&str> = STAGES.iter().map(|(stage, _)| *stage).collect();
    assert_eq!(hit, all, "every stage was under way at a kill");
    assert!(kills >= 20, "{kills} kills");
    expect(stormy.root(), &arguments(file), 0);
    assert_same_results(calm.root(), stormy.root());
    let resumed = resumed(stormy.root());
    assert!(resumed >= 3, "{resumed} attempts went on from checkpoints");
}

fn start(dir: &Path, file: &str) -> Child {
    pipeline(dir, &arguments(file))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("pipeline starts")
}

/// Waits until a stage has its `number`-th attempt; false when it was over before.
fn wait_for_attempt(
    dir: &Path,
    stage: &str,
    number: usize,
    reader: Option<&str>,
    driver: &mut Child,
) -> bool {
    loop {
        let over = over(dir, reader, driver);
        if attempts(dir, stage).len() >= number {
            return true;
        }
        if over {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for a finished checkpoint of a stage; not for longer than the stage is under way.
fn wait_for_checkpoint(dir: &Path, stage: &str, reader: Option<&str>, driver: &mut Child) {
    let kept = |attempt: PathBuf| {
        let entries = std::fs::read_dir(attempt.join("checkpoints"));
        let finished = |name: std::ffi::OsString| name.to_string_lossy().starts_with("step-");
        entries.is_ok_and(|mut all| all.any(|entry| entry.is_ok_and(|entry| finished(entry.file_name()))))
    };
    while !attempts(dir, stage).into_iter().any(kept) && !over(dir, reader, driver) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a stage is over: the one that reads its result has begun, or the whole run has ended.
fn over(dir: &Path, reader: Option<&str>, driver: &mut Child) -> bool {
    let ended = driver.try_wait().expect("the driver can be asked").is_some();
    ended || reader.is_some_and(|reader| !attempts(dir, reader).is_empty())
}

/// Attempt folders of a stage that a worker could have begun with.
fn attempts(dir: &Path, stage: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir.join(".pipeline/attempts")) else { return Vec::new() };
    let belongs = |path: &PathBuf| {
        let request = std::fs::read_to_string(path.join("request.json")).unwrap_or_default();
        serde_json::from_str::<serde_json::Value>(&request)
            .is_ok_and(|value| value["stage"]["name"] == *stage)
    };
    entries.flatten().map(|entry| entry.path()).filter(belongs).collect()
}

/// Attempts that began at a checkpoint.
fn resumed(dir: &Path) -> usize {
    let all = STAGES.iter().flat_map(|(stage, _)| attempts(dir, stage));
    let from_checkpoint = |path: &PathBuf| {
        let request = std::fs::read_to_string(path.join("request.json")).unwrap_or_default();
        serde_json::from_str::<serde_json::Value>(&request).is_ok_and(|value| !value["resume_from"].is_null())
    };
    all.filter(from_checkpoint).count()
}
