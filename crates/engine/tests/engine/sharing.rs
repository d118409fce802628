//! Several runs in one folder.

use engine::{Resume, Update};
use store::record::RunState;
use store::record::StageState::{Cached, Succeeded};

use crate::kit::{Project, raw, states, steps, until};
use crate::worker::Script;

#[tokio::test]
async fn e89_two_runs_that_need_the_same_stage_compute_it_once() {
    let script = Script { steps: 10, sleep_ms: 30, ..Script::default() };
    let project = Project::new(&[("a", &[], script), ("b", &["a"], steps(1))]);
    let mut driver = project.driver("run", None);
    project.wait_for_step("a 1").await;
    let mut waited = String::new();
    let outcome = project.run_with(&[], |update, _| {
        if let Update::StageWaiting { owner, .. } = update {
            waited.clone_from(owner);
        }
    });
    let outcome = outcome.await.unwrap();
    assert_eq!(outcome.exit_code(), 0);
    assert_eq!(states(&outcome)[0], Cached);
    assert!(waited.contains(&format!("pid {}", driver.id())), "{waited}");
    assert!(driver.wait().unwrap().success());
    assert_eq!(project.total(), 11);
    project.assert_at_rest().await;
}

#[tokio::test]
async fn e16_e89_of_two_resumes_of_one_run_one_wins_and_the_other_says_who() {
    let script = Script { steps: 1000, sleep_ms: 30, ..Script::default() };
    let project = Project::new(&[("a", &[], script)]);
    let mut first = project.driver("run", None);
    project.wait_for_step("a 1").await;
    let store = project.store().await;
    let run = store.runs(1).await.unwrap().remove(0);
    assert_eq!(project.driver(&run.id, None).wait().unwrap().code(), Some(4), "its owner is alive");
    first.kill().unwrap();
    first.wait().unwrap();

    let mut drivers = [project.driver(&run.id, None), project.driver(&run.id, None)];
    let mut loser = None;
    until(|| {
        loser = drivers.iter_mut().position(|d| d.try_wait().unwrap().is_some());
        loser.is_some()
    })
    .await;
    let loser = loser.unwrap();
    assert_eq!(drivers[loser].wait().unwrap().code(), Some(4));
    let winner = &mut drivers[1 - loser];
    let pid = nix::unistd::Pid::from_raw(winner.id() as i32);
    // The adopted worker may be anywhere in a step; it stops at the next.
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(winner.wait().unwrap().code(), Some(130));
    assert!(project.computed().values().all(|&n| n == 1), "no step twice");
    project.assert_at_rest().await;
}

#[tokio::test]
async fn e89_fifty_runs_started_at_once_all_finish_under_names_of_their_own() {
    let project = Project::new(&[("a", &[], steps(2)), ("b", &["a"], steps(1))]);
    let drivers: Vec<_> = (0..50).map(|_| project.driver("run", None)).collect();
    for mut driver in drivers {
        assert!(driver.wait().unwrap().success());
    }
    let runs = project.store().await.runs(100).await.unwrap();
    assert_eq!(runs.len(), 50);
    assert!(runs.iter().all(|r| r.state == RunState::Succeeded));
    assert_eq!(project.total(), 3, "the work was done once");
    project.assert_at_rest().await;
}

#[tokio::test]
async fn e11_every_stage_of_a_diamond_sees_all_its_ancestors_whoever_made_them() {
    let stages: &crate::kit::Stages = &[
        ("a", &[], steps(1)),
        ("b", &["a"], steps(1)),
        ("c", &["a"], steps(1)),
        ("d", &["b", "c"], steps(1)),
    ];
    let project = Project::new(stages);
    assert_eq!(states(&project.run().await), [Succeeded; 4]);
    let good = project.artifacts();
    for last in 0..4 {
        let other = Project::new(&stages[..=last]);
        other.run().await;
        other.write_plan(stages);
        assert_eq!(states(&other.run().await)[last..].iter().filter(|s| **s == Cached).count(), 1);
        assert_eq!(other.artifacts(), good);
    }
}

#[tokio::test]
async fn e91_a_run_of_an_unseen_machine_is_taken_over_only_when_somebody_says_so() {
    let project = Project::new(&[("a", &[], Script { sleep_ms: 20, ..steps(30) }), ("b", &["a"], steps(1))]);
    let mut driver = project.driver("run", None);
    project.wait_for_step("a 2").await;
    driver.kill().unwrap();
    driver.wait().unwrap();
    let everywhere = "UPDATE leases SET host = 'elsewhere', boot = 'another'";
    sqlx::query(everywhere).execute(&mut raw(&project.state()).await).await.unwrap();

    let engine = project.engine().await;
    let run = engine.store().runs(1).await.unwrap().remove(0);
    assert_eq!(run.state, RunState::Running, "unknown is not dead");
    let updates = tokio::sync::mpsc::unbounded_channel().0;
    let refused = engine.resume(&run.id, &Resume::default(), updates.clone()).await.unwrap_err();
    assert_eq!(refused.exit_code(), 4);
    assert!(refused.to_string().contains("elsewhere"), "{refused}");
    let take_over = Resume { take_over: true, ..Resume::default() };
    let outcome = engine.resume(&run.id, &take_over, updates).await.unwrap();
    assert_eq!((states(&outcome), project.total()), (vec![Succeeded; 2], 31));
    project.assert_at_rest().await;

    // Said of a process that can be seen to live, it means nothing.
    let project = Project::new(&[("a", &[], Script { sleep_ms: 20, ..steps(1000) })]);
    let mut driver = project.driver("run", None);
    project.wait_for_step("a 2").await;
    let engine = project.engine().await;
    let run = engine.store().runs(1).await.unwrap().remove(0);
    let updates = tokio::sync::mpsc::unbounded_channel().0;
    assert_eq!(engine.resume(&run.id, &take_over, updates).await.unwrap_err().exit_code(), 4);
    driver.kill().unwrap();
    driver.wait().unwrap();
}
