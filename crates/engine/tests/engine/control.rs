//! Stopping, forcing, and drivers that die.

use engine::protocol::FailureClass;
use engine::{Cause, Level, Resume, Update};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use store::record::StageState::{Cached, Failed, Pending, Skipped, Stopped, Succeeded};
use store::record::{AttemptState, Request, RunState};

use crate::kit::{Project, states, steps, until};
use crate::worker::Script;

fn slow(steps: u64) -> Script {
    Script { steps, sleep_ms: 40, ..Script::default() }
}

#[tokio::test]
async fn e101_the_first_ctrl_c_checkpoints_and_resume_goes_on() {
    let project = Project::new(&[("a", &[], slow(8)), ("b", &["a"], steps(1))]);
    let outcome = project.run_with(&[], |update, control| {
        if matches!(update, Update::Worker { event: engine::protocol::Event::Checkpoint { .. }, .. }) {
            control.raise(Level::Stop, Cause::Interrupt);
        }
    });
    let outcome = outcome.await.unwrap();
    assert_eq!((states(&outcome), outcome.exit_code()), (vec![Stopped, Pending], 130));
    assert!(project.total() < 8);
    project.assert_at_rest().await;
    let outcome = project.resume(&Resume::default()).await;
    assert_eq!((states(&outcome), outcome.exit_code()), (vec![Succeeded; 2], 0));
    assert_eq!(project.total(), 9, "no step twice");
}

#[tokio::test]
async fn e41_e92_e98_term_and_kill_end_every_process_before_the_stage_is_called_stopped() {
    for (level, cause, stubborn) in
        [(Level::Term, Cause::Terminate, false), (Level::Kill, Cause::Interrupt, true)]
    {
        let script = Script { steps: 1000, sleep_ms: 20, grandchild: true, stubborn, ..Script::default() };
        let project = Project::new(&[("a", &[], script)]);
        let outcome = project.run_with(&[], |update, control| match update {
            Update::Worker { event: engine::protocol::Event::Checkpoint { .. }, .. } => {
                control.raise(Level::Stop, cause);
                control.raise(Level::Term, cause);
                control.raise(level, cause);
            }
            Update::StageEnded(_) => assert_eq!(project.processes(), [] as [i32; 0]),
            _ => {}
        });
        let outcome = outcome.await.unwrap();
        assert_eq!((states(&outcome), outcome.state), (vec![Stopped], RunState::Stopped));
        assert_eq!(outcome.exit_code(), if level == Level::Term { 143 } else { 130 });
        assert!(project.artifacts().is_empty());
        project.assert_at_rest().await;
    }
}

#[tokio::test]
async fn e97_a_driver_in_its_own_process_gets_the_signals_and_its_workers_do_not() {
    let project = Project::new(&[("a", &[], slow(1000))]);
    let mut driver = project.driver("run", None);
    project.wait_for_step("a 2").await;
    let worker = project.processes()[0];
    let pid = Pid::from_raw(driver.id() as i32);
    assert_ne!(
        nix::unistd::getpgid(Some(Pid::from_raw(worker))).unwrap(),
        nix::unistd::getpgid(Some(pid)).unwrap()
    );
    kill(pid, Signal::SIGINT).unwrap();
    assert_eq!(driver.wait().unwrap().code(), Some(130));
    project.assert_at_rest().await;
}

#[tokio::test]
async fn e5_e86_a_killed_driver_leaves_no_lock_and_its_worker_is_adopted() {
    let project = Project::new(&[("a", &[], slow(10)), ("b", &["a"], steps(1))]);
    let mut driver = project.driver("run", None);
    project.wait_for_step("a 2").await;
    driver.kill().unwrap();
    driver.wait().unwrap();
    assert_eq!(project.processes().len(), 1, "the worker goes on");
    let store = project.store().await;
    assert_eq!(store.runs(1).await.unwrap()[0].state, RunState::Interrupted);

    let mut adopted = 0;
    let outcome = project
        .run_with(&[], |update, _| adopted += i32::from(matches!(update, Update::StageAdopted { .. })));
    let outcome = outcome.await.unwrap();
    assert_eq!((states(&outcome), adopted), (vec![Succeeded; 2], 1));
    assert_eq!(project.total(), 11, "nothing twice, though another run took it up");

    let old = store.runs(2).await.unwrap().remove(1);
    let engine = project.engine().await;
    let updates = tokio::sync::mpsc::unbounded_channel().0;
    let outcome = engine.resume(&old.id, &Resume::default(), updates).await.unwrap();
    assert_eq!(states(&outcome), [Cached, Cached], "the killed run is made good as well");
}

#[tokio::test]
async fn e8_driver_and_worker_killed_the_run_goes_on_from_the_checkpoint() {
    let project = Project::new(&[("a", &[], slow(10))]);
    let mut driver = project.driver("run", None);
    project.wait_for_step("a 5").await;
    driver.kill().unwrap();
    driver.wait().unwrap();
    for pid in project.processes() {
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
    until(|| project.processes().is_empty()).await;
    assert_eq!(project.resume(&Resume::default()).await.exit_code(), 0);
    assert!(project.total() <= 11, "at most the step that was under way: {:?}", project.computed());
    project.assert_at_rest().await;
}

#[tokio::test]
async fn e10_a_forced_stage_killed_half_way_is_still_to_do() {
    let project = Project::new(&[("a", &[], slow(4)), ("b", &["a"], steps(1))]);
    project.run().await;
    let good = project.artifacts();
    let outcome = project.run_with(&["a"], |update, control| {
        if matches!(update, Update::Worker { event: engine::protocol::Event::Checkpoint { .. }, .. }) {
            control.raise(Level::Kill, Cause::Interrupt);
        }
    });
    assert_eq!(states(&outcome.await.unwrap()), [Stopped, Pending]);
    assert_eq!(project.artifacts(), good, "the old results stay until the new ones are whole");
    let before = project.total();
    assert!(before > 5 && before < 9, "a forced stage starts from nothing: {before}");
    let outcome = project.resume(&Resume::default()).await;
    assert_eq!(states(&outcome), [Succeeded, Succeeded], "not taken for done");
    assert_eq!(project.artifacts(), good);
    assert_eq!(project.computed()["b 1"], 2, "what reads a forced stage runs as well");
    project.assert_at_rest().await;
}

#[tokio::test]
async fn a_stage_whose_time_is_up_keeps_its_checkpoint_and_has_failed() {
    let project = Project::new(&[("a", &[], slow(50)), ("b", &["a"], steps(1)), ("c", &[], steps(1))]);
    project.change_plan(|plan| plan.stages[0].timeout = 0.5);
    let outcome = project.run().await;
    assert_eq!((states(&outcome), outcome.exit_code()), (vec![Failed, Skipped, Succeeded], 1));
    let failure = outcome.stages[0].failure.clone().unwrap();
    assert_eq!((failure.code.as_str(), failure.class), ("E0329", FailureClass::User));
    let done = project.total();
    assert!((2..51).contains(&done), "{done}");
    project.assert_at_rest().await;
    // E14: a run made with a longer timeout goes on from there.
    project.change_plan(|plan| plan.stages[0].timeout = 0.0);
    let outcome = project.run().await;
    assert_eq!(
        (states(&outcome), project.total()),
        (vec![Succeeded, Succeeded, Cached], 52),
        "no step twice"
    );
}

#[tokio::test]
async fn e98_a_run_is_paused_and_cancelled_from_another_process() {
    for request in [Request::Pause, Request::Cancel] {
        let project = Project::new(&[("a", &[], slow(400)), ("b", &["a"], steps(1))]);
        let mut driver = project.driver("run", None);
        project.wait_for_step("a 2").await;
        let store = project.store().await;
        let run = store.runs(1).await.unwrap().remove(0);
        store.ask(&run.id, request).await.unwrap();
        let status = tokio::task::spawn_blocking(move || driver.wait().unwrap()).await.unwrap();
        assert_eq!(status.code(), Some(130));
        assert_eq!(project.processes(), [] as [i32; 0]);
        let run = store.run(&run.id).await.unwrap();
        assert_eq!(run.state, RunState::Stopped);
        let attempt = store.attempts(&run.id).await.unwrap().remove(0);
        assert_eq!(attempt.state, AttemptState::Stopped);
        project.assert_at_rest().await;

        // The request was for that process only.
        let steps = project.total();
        let mut driver = project.driver(&run.id, None);
        project.wait_for_step(&format!("a {}", steps + 20)).await;
        kill(Pid::from_raw(driver.id() as i32), Signal::SIGKILL).unwrap();
        driver.wait().unwrap();

        // Its driver is dead, its worker is not: stopping the run stops the worker.
        let engine = project.engine().await;
        let outcome = engine.stop(&run.id, request, tokio::sync::mpsc::unbounded_channel().0).await;
        assert_eq!(states(&outcome.unwrap()), [Stopped, Pending]);
        project.assert_at_rest().await;
    }
}
