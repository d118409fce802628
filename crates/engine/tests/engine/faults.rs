//! What goes wrong inside stages, and what the next run makes of it.

use std::collections::BTreeMap;
use std::fs;

use engine::protocol::{FailureClass, Manifest, PROTOCOL, file};
use engine::{Resume, Update};
use store::record::AttemptState;
use store::record::StageState::{Cached, Failed, Refused, Skipped, Succeeded};

use crate::kit::{Project, states, steps, until};
use crate::worker::Script;

#[tokio::test]
async fn a_run_makes_everything_once_and_the_next_one_nothing() {
    let project =
        Project::new(&[("a", &[], steps(2)), ("b", &["a"], steps(2)), ("c", &["a", "b"], steps(1))]);
    let mut progress = 0;
    let outcome = project.run_with(&[], |update, _| {
        progress += i32::from(matches!(
            update,
            Update::Worker { event: engine::protocol::Event::Progress { .. }, .. }
        ));
    });
    let outcome = outcome.await.unwrap();
    assert_eq!((states(&outcome), outcome.exit_code()), (vec![Succeeded; 3], 0));
    assert_eq!(progress, 5);
    assert_eq!(outcome.stages[0].seconds, 0.25, "as the worker measured it");
    assert_eq!(project.total(), 5);
    let outcome = project.run().await;
    assert_eq!((states(&outcome), outcome.exit_code()), (vec![Cached; 3], 0));
    assert_eq!(project.total(), 5);
    project.assert_at_rest().await;
    let left: Vec<_> = fs::read_dir(project.state().join("attempts")).unwrap().collect();
    assert_eq!(left.len(), 3);
    for attempt in left {
        let checkpoints = attempt.unwrap().path().join(file::CHECKPOINTS);
        assert_eq!(fs::read_dir(checkpoints).unwrap().count(), 0, "checkpoints of a finished stage are gone");
    }
}

#[tokio::test]
async fn e8_e20_a_killed_worker_goes_on_from_its_last_checkpoint() {
    let script = Script { steps: 5, die_after: Some(3), deaths: 1, ..Script::default() };
    let project = Project::new(&[("a", &[], script)]);
    let mut resumed = Vec::new();
    let outcome = project.run_with(&[], |update, _| {
        if let Update::StageStarted { resume_step, .. } = update {
            resumed.push(*resume_step);
        }
    });
    assert_eq!(outcome.await.unwrap().exit_code(), 0);
    assert_eq!(resumed, [None, Some(3)]);
    assert_eq!(project.total(), 5, "no step twice");
    let attempts = attempts(&project).await;
    assert_eq!(
        attempts.iter().map(|a| a.0).collect::<Vec<_>>(),
        [AttemptState::Dead, AttemptState::Succeeded]
    );
    assert!(attempts[0].1.contains("signal 9"), "{}", attempts[0].1);
}

#[tokio::test]
async fn e18_a_new_checkpoint_refills_the_budget_of_retries() {
    let project = Project::new(&[("a", &[], Script { die_each: true, ..steps(7) })]);
    assert_eq!(project.run().await.exit_code(), 0);
    assert_eq!(attempts(&project).await.len(), 8, "seven deaths, each a step further");

    let project = Project::new(&[("a", &[], Script { silent: true, ..steps(1) })]);
    let outcome = project.run().await;
    assert_eq!((states(&outcome), outcome.exit_code()), (vec![Failed], 1));
    assert_eq!(attempts(&project).await.len(), 4, "the same death four times is a failure");
    assert!(project.artifacts().is_empty());
    project.assert_at_rest().await;
}

#[tokio::test]
async fn e13_infrastructure_failures_run_again_and_the_users_need_asking() {
    for (class, retried) in [(FailureClass::User, false), (FailureClass::Infra, true)] {
        let script = Script { steps: 1, fail: Some(class), ..Script::default() };
        let project = Project::new(&[("a", &[], script), ("b", &["a"], steps(1)), ("c", &[], steps(1))]);
        let outcome = project.run().await;
        assert_eq!(states(&outcome), [Failed, Skipped, Succeeded], "an independent branch goes on");
        assert_eq!(outcome.exit_code(), 1);
        let failure = outcome.stages[0].failure.clone().unwrap();
        assert_eq!((failure.code.as_str(), failure.help.as_str()), ("E9999", "stop asking"));
        let before = attempts(&project).await.len();
        assert_eq!(before, if retried { 4 + 1 } else { 2 }, "{class:?}");

        let outcome = project.resume(&Resume::default()).await;
        assert_eq!((states(&outcome), outcome.exit_code()), (vec![Failed, Skipped, Cached], 1));
        assert_eq!(attempts(&project).await.len() > before, retried, "{class:?}");
        let asked = Resume { retry_failed: true, ..Resume::default() };
        let now = attempts(&project).await.len();
        project.resume(&asked).await;
        assert!(attempts(&project).await.len() > now);
        project.assert_at_rest().await;
    }
}

#[tokio::test]
async fn a_gate_refuses_and_skips_what_depends_on_it() {
    let script = Script { steps: 1, fail: Some(FailureClass::Gate), ..Script::default() };
    let project =
        Project::new(&[("gate", &[], script), ("ppo", &["gate"], steps(1)), ("eval", &["ppo"], steps(1))]);
    let outcome = project.run().await;
    assert_eq!(states(&outcome), [Refused, Skipped, Skipped]);
    assert_eq!(outcome.exit_code(), 8);
    assert_eq!(outcome.stages[1].failure.as_ref().unwrap().message, "needs `gate`, which was refused");
    assert_eq!(project.total(), 1);
    project.assert_at_rest().await;
}

#[tokio::test]
async fn e2_e40_a_planted_or_foreign_done_mark_is_ignored() {
    let project = Project::new(&[("a", &[], Script { silent: true, ..steps(1) })]);
    // A whole result with a manifest, but another attempt's: each new attempt's folder gets one.
    let state = project.state();
    let outcome = project.run_with(&[], |update, _| {
        let Update::StageStarted { log, .. } = update else { return };
        let folder = log.parent().unwrap();
        let manifest = Manifest {
            protocol: PROTOCOL,
            nonce: "of attempt 1".into(),
            fingerprint: project_fingerprint(folder),
            files: vec![],
            summary: serde_json::Value::Null,
            usage: Default::default(),
        };
        fs::write(folder.join(file::MANIFEST), serde_json::to_vec(&manifest).unwrap()).unwrap();
    });
    assert_eq!(states(&outcome.await.unwrap()), [Failed]);
    assert_eq!(fs::read_dir(state.join("artifacts")).unwrap().count(), 0);
}

fn project_fingerprint(attempt: &std::path::Path) -> String {
    let text = fs::read(attempt.join(file::REQUEST)).unwrap();
    serde_json::from_slice::<engine::protocol::Request>(&text).unwrap().stage.fingerprint.0
}

#[tokio::test]
async fn e36_e37_a_result_that_does_not_match_its_manifest_is_not_taken() {
    let project = Project::new(&[("a", &[], Script { corrupt: true, ..steps(1) }), ("b", &["a"], steps(1))]);
    let outcome = project.run().await;
    assert_eq!((states(&outcome), outcome.exit_code()), (vec![Failed, Skipped], 1));
    let failure = outcome.stages[0].failure.as_ref().unwrap();
    assert_eq!(failure.class, FailureClass::Infra);
    assert!(failure.message.contains("result.txt: content differs"), "{}", failure.message);
    assert!(project.artifacts().is_empty());

    // The same stage, mended: nothing of the bad result is in the way.
    project.write_plan(&[("a", &[], steps(1)), ("b", &["a"], steps(1))]);
    assert_eq!(project.run().await.exit_code(), 0);
}

#[tokio::test]
async fn e46_a_deleted_or_truncated_artifact_is_made_again() {
    let project = Project::new(&[("a", &[], steps(1)), ("b", &["a"], steps(1))]);
    project.run().await;
    let good = project.artifacts();
    let result = good.keys().find(|p| p.ends_with("result.txt")).unwrap();
    let path = project.state().join("artifacts").join(result);
    for damage in [|p: &std::path::Path| fs::remove_file(p), |p: &std::path::Path| fs::write(p, "short")] {
        damage(&path).unwrap();
        let engine = project.engine().await;
        let decisions =
            engine::decisions(engine.store(), &project.plan(), &Default::default()).await.unwrap();
        assert!(decisions.iter().any(|d| d.runs()), "{decisions:?}");
        assert_eq!(project.run().await.exit_code(), 0);
        assert_eq!(project.artifacts(), good);
        project.assert_at_rest().await;
    }
}

#[tokio::test]
async fn e12_a_changed_stage_runs_again_in_a_new_run_and_resume_keeps_the_old_plan() {
    let project = Project::new(&[("a", &[], steps(1)), ("b", &["a"], steps(1))]);
    let first = project.run().await;
    let good = project.artifacts();
    let changed = Script { salt: "changed".into(), ..steps(1) };
    project.write_plan(&[("a", &[], steps(1)), ("b", &["a"], changed)]);
    let resumed = project.resume(&Resume::default()).await;
    assert_eq!((resumed.run_id, states(&first)), (first.run_id, vec![Succeeded; 2]));
    assert_eq!(project.artifacts(), good);

    let engine = project.engine().await;
    let why = engine::view::explain(engine.store(), &project.plan(), "b").await.unwrap();
    assert_eq!(why.changes.iter().map(ToString::to_string).collect::<Vec<_>>(), ["config.salt:  → changed"]);
    drop(engine);
    assert_eq!(states(&project.run().await), [Cached, Succeeded]);
    assert_eq!(project.total(), 3);
}

#[tokio::test]
async fn e48_an_input_that_changes_during_the_stage_spoils_it() {
    let project = Project::new(&[("a", &[], steps(1))]);
    fs::write(project.root.join("data.txt"), "before").unwrap();
    let hash = blake3::hash(b"before").to_hex().to_string();
    project.change_plan(|plan| {
        let parts = &mut plan.stages[0].parts;
        let mut changed: BTreeMap<_, _> = parts.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        changed.insert("file.data.txt".into(), hash.clone());
        *parts = changed.into();
    });
    let data = project.root.join("data.txt");
    let outcome = project.run_with(&[], |update, _| {
        if matches!(update, Update::StageStarted { .. }) {
            fs::write(&data, "after").unwrap();
        }
    });
    let outcome = outcome.await.unwrap();
    assert_eq!(states(&outcome), [Failed]);
    assert_eq!(outcome.stages[0].failure.as_ref().unwrap().code, "E0323");
    assert!(project.artifacts().is_empty());
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_executor_error() {
    let project = Project::new(&[("a", &[], steps(1))]);
    let options = engine::Options::new(vec!["/no/such/program".into()], project.root.clone(), "x".into());
    let engine = engine::Engine::new(project.store().await, options);
    let updates = tokio::sync::mpsc::unbounded_channel().0;
    let outcome = engine.run(&project.plan(), "p.toml", &Default::default(), updates).await.unwrap();
    assert_eq!((states(&outcome), outcome.exit_code()), (vec![Failed], 5));
    project.assert_at_rest().await;
}

#[tokio::test]
async fn e4_e43_when_a_transition_cannot_be_written_nothing_further_starts_and_nothing_is_lost() {
    let project = Project::new(&[("a", &[], steps(2)), ("b", &["a"], steps(1))]);
    project.store().await.close().await;
    let mut raw = crate::kit::raw(&project.state()).await;
    let refuse = "CREATE TRIGGER full BEFORE INSERT ON artifacts BEGIN SELECT RAISE(ABORT, 'disk full'); END";
    sqlx::query(refuse).execute(&mut raw).await.unwrap();
    let error = project.run_with(&[], |_, _| ()).await.unwrap_err();
    assert_eq!(error.exit_code(), 6, "{error}");
    assert!(error.to_string().contains("disk full"), "{error}");
    assert_eq!(project.total(), 2, "what depends on it did not start");
    let store = project.store().await;
    assert_eq!(store.runs(1).await.unwrap()[0].state, store::record::RunState::Interrupted);
    drop(store);

    sqlx::query("DROP TRIGGER full").execute(&mut raw).await.unwrap();
    assert_eq!(states(&project.resume(&Resume::default()).await), [Succeeded; 2]);
    assert_eq!(project.total(), 3, "the finished result was taken, not made again");
    project.assert_at_rest().await;
}

#[tokio::test]
async fn a_stage_that_may_fail_once_is_tried_again() {
    let flaky = Script { fail: Some(FailureClass::User), fail_once: true, ..steps(2) };
    let project = Project::new(&[("a", &[], flaky)]);
    project.change_plan(|plan| plan.stages[0].max_retries = 1);
    assert_eq!(states(&project.run().await), [Succeeded]);
    assert_eq!(
        attempts(&project).await.iter().map(|a| a.0).collect::<Vec<_>>(),
        [AttemptState::Failed, AttemptState::Succeeded]
    );
    assert_eq!(project.total(), 2, "from its checkpoint");
}

#[tokio::test]
async fn independent_stages_run_side_by_side_where_allowed() {
    let slow = Script { steps: 4, sleep_ms: 50, ..Script::default() };
    for parallel in [1, 2] {
        let project =
            Project::new(&[("a", &[], slow.clone()), ("b", &[], slow.clone()), ("c", &["a", "b"], steps(1))]);
        project.change_plan(|plan| plan.executor.max_parallel = parallel);
        let (mut running, mut most) = (0, 0);
        let outcome = project.run_with(&[], |update, _| {
            match update {
                Update::StageStarted { .. } => running += 1,
                Update::StageEnded(_) => running -= 1,
                _ => {}
            }
            most = most.max(running);
        });
        assert_eq!(states(&outcome.await.unwrap()), [Succeeded; 3]);
        assert_eq!(most, parallel);
    }
}

/// State and message of every attempt of the newest run.
async fn attempts(project: &Project) -> Vec<(AttemptState, String)> {
    let store = project.store().await;
    let run = store.runs(1).await.unwrap().remove(0);
    let attempts = store.attempts(&run.id).await.unwrap();
    attempts.into_iter().map(|a| (a.state, a.message.unwrap_or_default())).collect()
}

#[tokio::test]
async fn e20_a_damaged_checkpoint_is_passed_over_for_the_one_before() {
    let script = Script { sleep_ms: 20, ..steps(40) };
    let project = Project::new(&[("a", &[], script)]);
    let mut driver = project.driver("run", None);
    project.wait_for_step("a 5").await;
    driver.kill().unwrap();
    driver.wait().unwrap();
    for pid in project.processes() {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    }
    until(|| project.processes().is_empty()).await;
    let attempt = fs::read_dir(project.state().join("attempts")).unwrap().next().unwrap().unwrap().path();
    let folders = fs::read_dir(attempt.join(file::CHECKPOINTS)).unwrap().map(|e| e.unwrap().path());
    let newest =
        folders.filter(|f| f.file_name().unwrap().to_str().unwrap().starts_with("step-")).max().unwrap();
    let step: u64 = newest.file_name().unwrap().to_str().unwrap()[5..].parse().unwrap();
    fs::write(newest.join("state"), "something else").unwrap();
    let (mut resumed, mut warned) = (None, String::new());
    let outcome = project.run_with(&[], |update, _| match update {
        Update::StageStarted { resume_step, .. } => resumed = *resume_step,
        Update::Worker { event: engine::protocol::Event::Warning { message }, .. } => {
            warned.clone_from(message)
        }
        _ => {}
    });
    assert_eq!(outcome.await.unwrap().exit_code(), 0);
    assert_eq!(resumed, Some(step - 1));
    assert!(warned.contains("state is not what it was"), "{warned}");
    let good = Project::new(&[("a", &[], steps(40))]);
    good.run().await;
    assert_eq!(project.artifacts(), good.artifacts());
}

#[tokio::test]
async fn e46_a_damaged_input_is_made_again_by_the_next_run() {
    let whole: [(&str, &[&str], Script); 2] = [("a", &[], steps(1)), ("b", &["a"], steps(1))];
    let project = Project::new(&whole);
    project.run().await;
    let good = project.artifacts();
    let engine = project.engine().await;
    let artifact =
        engine.store().artifact(project.plan().stages[0].fingerprint.as_str()).await.unwrap().unwrap();
    let folder = project.state().join(&artifact.path);
    let text = fs::read_to_string(folder.join("result.txt")).unwrap();
    fs::write(folder.join("result.txt"), text.to_uppercase()).unwrap();
    assert_eq!(project.run().await.exit_code(), 0, "contents are not read where nothing has to run");

    let reader = Script { fail: Some(FailureClass::User), bad_input: true, salt: "1".into(), ..steps(1) };
    project.write_plan(&[("a", &[], steps(1)), ("b", &["a"], reader)]);
    let outcome = project.run().await;
    assert_eq!(states(&outcome), [Cached, Failed]);
    assert_eq!(outcome.stages[1].failure.as_ref().unwrap().help, "the next run makes `a` again");
    project.write_plan(&whole);
    assert_eq!(states(&project.run().await), [Succeeded; 2]);
    assert_eq!(project.artifacts(), good);

    fs::remove_file(folder.join(file::MANIFEST)).unwrap();
    let decisions = engine::decisions(engine.store(), &project.plan(), &Default::default()).await.unwrap();
    assert!(decisions[0].runs(), "a result without its manifest is none");
}
