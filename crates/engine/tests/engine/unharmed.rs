//! What must not matter: how a run ended, half-written files, the clock, the size of a run, an old database.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use engine::protocol::{Event, FailureClass, Manifest, Request, file};
use engine::{Cause, Level, Resume, Update};
use nix::sys::signal::Signal::SIGKILL;
use store::record::StageState::{Cached, Failed, Skipped, Succeeded};

use crate::kit::{Project, raw, send, states, steps, until};
use crate::worker::Script;

fn slow(steps: u64) -> Script {
    Script { steps, sleep_ms: 30, ..Script::default() }
}

/// The folder of the only attempt.
fn attempt(project: &Project) -> PathBuf {
    let mut all = fs::read_dir(project.state().join("attempts")).unwrap();
    all.next().unwrap().unwrap().path()
}

async fn killed(project: &Project, point: &str) {
    assert!(!project.driver("run", Some(point)).wait().unwrap().success(), "{point}");
    until(|| project.processes().is_empty()).await;
}

#[tokio::test]
async fn e4_a_write_that_is_dropped_without_an_error_is_noticed() {
    let project = Project::new(&[("a", &[], steps(1))]);
    project.store().await.close().await;
    let drop_silently = "CREATE TRIGGER lost BEFORE UPDATE ON stages WHEN NEW.state = 'succeeded'
        BEGIN SELECT RAISE(IGNORE); END";
    let mut raw = raw(&project.state()).await;
    sqlx::query(drop_silently).execute(&mut raw).await.unwrap();
    let error = project.run_with(&[], |_, _| ()).await.unwrap_err();
    assert!(error.to_string().contains("a is recorded as running"), "{error}");
    sqlx::query("DROP TRIGGER lost").execute(&mut raw).await.unwrap();
    assert_eq!(states(&project.resume(&Resume::default()).await), [Cached], "its result is there");
    project.assert_at_rest().await;
}

#[tokio::test]
async fn e11_resumed_from_each_stage_of_a_diamond_nothing_else_runs_again() {
    for broken in 0..4 {
        let flaky = Script { fail: Some(FailureClass::User), fail_once: true, ..steps(1) };
        let script = |at: usize| if at == broken { flaky.clone() } else { steps(1) };
        let project = Project::new(&[
            ("a", &[], script(0)),
            ("b", &["a"], script(1)),
            ("c", &["a"], script(2)),
            ("d", &["b", "c"], script(3)),
        ]);
        let first = states(&project.run().await);
        assert_eq!(first[broken], Failed);
        assert!(first[3] == Skipped || broken == 3);
        let retry = Resume { retry_failed: true, ..Resume::default() };
        assert_eq!(project.resume(&retry).await.exit_code(), 0);
        assert_eq!(project.total(), 4, "{:?}", project.computed());
        project.assert_at_rest().await;
    }
}

#[tokio::test]
async fn e23_what_is_left_of_a_worker_is_gone_before_the_next_one_starts() {
    let script = Script { grandchild: true, stubborn: true, die_after: Some(1), deaths: 1, ..steps(2) };
    let project = Project::new(&[("a", &[], script)]);
    let mut folders: Vec<PathBuf> = Vec::new();
    let outcome = project.run_with(&[], |update, _| {
        let Update::StageStarted { log, .. } = update else { return };
        for earlier in &folders {
            let id = earlier.file_name().unwrap().to_str().unwrap();
            let left = store::process::with_variable(engine::protocol::env::ATTEMPT, id);
            assert_eq!(left, [] as [i32; 0], "TERM was ignored, KILL cannot be");
        }
        folders.push(log.parent().unwrap().to_owned());
    });
    assert_eq!(outcome.await.unwrap().exit_code(), 0);
    assert_eq!(folders.len(), 2);
    assert_ne!(folders[0], folders[1], "each attempt has a folder and a nonce of its own");
    project.assert_at_rest().await;
}

/// A database of the first schema, with a run in it whose driver was killed.
#[tokio::test]
async fn e29_a_database_of_an_earlier_schema_is_migrated_and_its_run_resumed() {
    use sqlx::ConnectOptions;
    let project = Project::new(&[("a", &[], steps(2)), ("b", &["a"], steps(1))]);
    let artifact = project.state().join("artifacts/ppo-c941568e52db31e6");
    fs::create_dir_all(&artifact).unwrap();
    fs::create_dir_all(project.state().join("attempts/a-b15a9ff9fb")).unwrap();
    let result = "6991a8f4ede8a56aa4de1b1b0e27d39be51ad32a8d1b65c9f80fdc4c27cd3ab9";
    fs::write(artifact.join("result.txt"), result).unwrap();
    fs::write(artifact.join(file::MANIFEST), "{}").unwrap();
    let dump = include_str!("schema-0001.sql").replace("@HOST@", &store::process::host());
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(project.state().join("state.db"));
    let mut made = options.create_if_missing(true).connect().await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(dump)).execute(&mut made).await.unwrap();
    drop(made);

    let outcome = project.resume(&Resume::default()).await;
    assert_eq!((outcome.run_id.as_str(), states(&outcome)), ("p-47f455a5", vec![Cached, Succeeded]));
    assert_eq!(project.total(), 1, "the result made under the old schema was used");
    project.assert_at_rest().await;
}

#[tokio::test]
async fn e34_events_that_cannot_be_read_fail_nothing() {
    let project = Project::new(&[("a", &[], slow(4))]);
    let outcome = project.run_with(&[], |update, _| {
        if matches!(update, Update::Worker { event: Event::Checkpoint { step: 1, .. }, .. }) {
            let events = attempt(&project).join(file::EVENTS);
            fs::rename(&events, events.with_extension("moved")).unwrap();
            fs::create_dir(&events).unwrap();
        }
    });
    assert_eq!(states(&outcome.await.unwrap()), [Succeeded]);
    assert_eq!(project.total(), 4);
}

#[tokio::test]
async fn e41_failed_stopped_terminated_or_killed_the_folder_is_in_the_same_state() {
    let good = Project::new(&[("a", &[], slow(6))]);
    good.run().await;
    for ending in ["fail", "INT", "TERM", "KILL", "KILL of the driver too"] {
        let mut script = slow(6);
        script.fail = (ending == "fail").then_some(FailureClass::User);
        let project = Project::new(&[("a", &[], script)]);
        if ending.ends_with("too") {
            let mut driver = project.driver("run", None);
            project.wait_for_step("a 2").await;
            driver.kill().unwrap();
            driver.wait().unwrap();
            project.processes().into_iter().for_each(|pid| send(pid, SIGKILL));
            until(|| project.processes().is_empty()).await;
        } else {
            let level = match ending {
                "INT" => Level::Stop,
                "TERM" => Level::Term,
                "KILL" => Level::Kill,
                _ => Level::Go,
            };
            let outcome = project.run_with(&[], |update, control| {
                if matches!(update, Update::Worker { event: Event::Checkpoint { step: 2, .. }, .. }) {
                    control.raise(level, Cause::Interrupt);
                }
            });
            assert_ne!(outcome.await.unwrap().exit_code(), 0, "{ending}");
        }
        assert_eq!(project.processes(), [] as [i32; 0], "{ending}");
        assert!(project.artifacts().is_empty(), "{ending}: nothing half-made is in place");
        project.write_plan(&[("a", &[], slow(6))]);
        assert_eq!(project.run().await.exit_code(), 0, "{ending}");
        assert_eq!(project.artifacts(), good.artifacts(), "{ending}");
        assert!(project.total() <= 7, "{ending}: {:?}", project.computed());
        project.assert_at_rest().await;
    }
}

#[tokio::test]
async fn e44_half_a_file_is_never_taken_for_a_whole_one_wherever_it_was_cut() {
    let project = Project::new(&[("a", &[], steps(2))]);
    killed(&project, "publish.verified").await;
    let folder = attempt(&project);
    let manifest = fs::read(folder.join(file::MANIFEST)).unwrap();
    let request = fs::read(folder.join(file::REQUEST)).unwrap();
    serde_json::from_slice::<Manifest>(&manifest).unwrap();
    serde_json::from_slice::<Request>(&request).unwrap();
    assert!((0..manifest.len()).all(|n| serde_json::from_slice::<Manifest>(&manifest[..n]).is_err()));
    assert!((0..request.len()).all(|n| serde_json::from_slice::<Request>(&request[..n]).is_err()));
    assert_eq!(project.resume(&Resume::default()).await.exit_code(), 0);
    assert_eq!(project.total(), 2, "a whole one is taken");
    let good = project.artifacts();

    for (name, point) in [
        (file::MANIFEST, "publish.verified"),
        (file::EVENTS, "publish.verified"),
        (file::REQUEST, "attempt.requested"),
        (file::REQUEST, "publish.verified"),
    ] {
        for cut in [0, 1, 2, 3] {
            let project = Project::new(&[("a", &[], steps(2))]);
            killed(&project, point).await;
            let path = attempt(&project).join(name);
            let whole = fs::read(&path).unwrap();
            let cut = [0, 1, whole.len() / 2, whole.len() - 1][cut];
            fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(project.resume(&Resume::default()).await.exit_code(), 0, "{name} cut at {cut}");
            assert_eq!(project.artifacts(), good, "{name} cut at {cut}");
            assert_eq!(project.total(), 2, "{name} cut at {cut}: from its checkpoint, or taken");
            project.assert_at_rest().await;
        }
    }
}

#[tokio::test]
async fn e107_how_many_files_a_stage_leaves_does_not_depend_on_its_length() {
    let mut counts = Vec::new();
    for length in [2, 40] {
        let project = Project::new(&[("a", &[], steps(length)), ("b", &["a"], steps(length))]);
        project.run().await;
        counts.push(store::files::inventory(&project.state().join("attempts")).unwrap().len());
        assert_eq!(project.artifacts().len(), 4, "a result and a manifest each");
    }
    assert_eq!(counts[0], counts[1]);
    assert!(counts[0] <= 2 * 4, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e110_two_hundred_stages_on_eight_places_all_end_and_none_runs_twice() {
    let names: Vec<String> = (0..200).map(|n| format!("s{n}")).collect();
    let stages: Vec<(&str, &[&str], Script)> =
        names.iter().map(|n| (n.as_str(), &[][..], steps(1))).collect();
    let project = Project::new(&stages);
    project.change_plan(|plan| plan.executor.max_parallel = 8);
    let outcome = project.run().await;
    assert!(outcome.stages.iter().all(|s| s.state == Succeeded));
    assert_eq!(project.total(), 200);
    project.assert_at_rest().await;
}

#[tokio::test]
async fn no_clock_decides_anything() {
    for (at, time) in [
        (0_i64, SystemTime::UNIX_EPOCH),
        (9_999_999_999_999, SystemTime::now() + Duration::from_secs(1 << 32)),
    ] {
        let project = Project::new(&[("a", &[], slow(3)), ("b", &["a"], steps(3))]);
        killed(&project, "attempt.checkpoint:2").await;
        let mut raw = raw(&project.state()).await;
        let jump = format!(
            "UPDATE runs SET created_at = {at}; UPDATE stages SET started_at = {at};
             UPDATE attempts SET created_at = {at}, started_at = {at}; UPDATE events SET at = {at};
             UPDATE checkpoints SET created_at = {at}; UPDATE leases SET since = {at};"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(jump)).execute(&mut raw).await.unwrap();
        age(&project.state().join("attempts"), time);
        assert_eq!(project.resume(&Resume::default()).await.exit_code(), 0);
        assert_eq!(project.total(), 6, "{:?}", project.computed());
        project.assert_at_rest().await;
        age(&project.state(), time);
        assert_eq!(states(&project.run().await), [Cached, Cached]);
    }
}

/// Sets the time of everything in a folder.
fn age(folder: &Path, time: SystemTime) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            age(&entry.path(), time);
        }
        if kind.is_file() {
            File::options().write(true).open(entry.path()).unwrap().set_modified(time).unwrap();
        }
    }
}

#[tokio::test]
async fn a_worker_out_of_memory_is_told_as_such() {
    let project = Project::new(&[("a", &[], Script { die_after: Some(1), deaths: 1, ..steps(3) })]);
    project.change_plan(|plan| plan.executor.infra_retries = 0);
    let outcome = project.run().await;
    let failure = outcome.stages[0].failure.clone().unwrap();
    assert_eq!((states(&outcome), failure.code.as_str()), (vec![Failed], "E0326"));
    assert!(failure.message.contains("memory"), "{}", failure.message);
    assert_eq!(project.resume(&Resume::default()).await.exit_code(), 0, "and goes on when asked");
    assert_eq!(project.total(), 3, "from its checkpoint");
}
