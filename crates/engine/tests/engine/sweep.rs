//! A driver killed at every point of every transition, then resumed: the results are those of a run that
//! nothing happened to, and no step was computed twice.

use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;

use engine::Resume;
use engine::protocol::FailureClass;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use store::record::RunState;
use store::record::StageState::{Failed, Skipped};
use store::{Store, fault};

use crate::kit::{Project, states, steps, until};
use crate::worker::Script;

pub fn stages() -> [(&'static str, &'static [&'static str], Script); 2] {
    let slow = Script { sleep_ms: 10, ..steps(3) };
    let dies = Script { die_after: Some(1), deaths: 1, ..slow.clone() };
    [("a", &[], dies), ("b", &["a"], slow)]
}

async fn killed_at(project: &Project, role: &str, point: &str) -> Option<String> {
    let mut driver = project.driver(role, Some(point));
    let status = tokio::task::spawn_blocking(move || driver.wait().unwrap()).await.unwrap();
    assert_eq!(status.signal(), Some(9), "{point}: not reached, exit {status}");
    let store = Store::open_existing(&project.state()).await.unwrap();
    let run = store.runs(1).await.unwrap().pop()?;
    let seen = engine::view::run_view(&store, None).await.unwrap().unwrap();
    assert_eq!(seen.stages.len(), 2, "{point}: whatever the moment, `status` shows the run");
    let done = point.starts_with("run.released");
    assert_eq!(run.state, if done { RunState::Succeeded } else { RunState::Interrupted }, "{point}");
    Some(run.id)
}

/// Several at a time: most of each is waiting.
pub async fn each<F: Future<Output = ()> + Send + 'static>(cases: Vec<F>) {
    let room = Arc::new(tokio::sync::Semaphore::new(4));
    let mut tasks = tokio::task::JoinSet::new();
    for case in cases {
        let room = Arc::clone(&room);
        tasks.spawn(async move {
            let _permit = room.acquire().await.unwrap();
            case.await;
        });
    }
    while let Some(result) = tasks.join_next().await {
        result.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e17_e43_e101_killed_at_every_transition_nothing_is_lost_or_done_twice() {
    let good = Project::new(&stages());
    good.run().await;
    let good = Arc::new(good.artifacts());
    // Only a resumption passes the one, only a stage without a result the other; see below.
    let points = fault::POINTS.iter().filter(|p| !["run.leased", "stage.released"].contains(p));
    let cases = points.flat_map(|p| ["1", "2"].map(|n| format!("{p}:{n}")));
    // What happens once for a run has no second time, and only one worker dies.
    let cases =
        cases.filter(|c| !((c.starts_with("run.") || c.starts_with("attempt.ended")) && c.ends_with(":2")));
    let cases = cases.map(|point| {
        let good = Arc::clone(&good);
        async move {
            let project = Project::new(&stages());
            let run_id = killed_at(&project, "run", &point).await;
            assert!(run_id.is_some(), "{point}");
            let outcome = project.resume(&Resume::default()).await;
            assert_eq!((Some(&outcome.run_id), outcome.exit_code()), (run_id.as_ref(), 0), "{point}");
            assert_eq!(project.artifacts(), *good, "{point}");
            assert_eq!(project.total(), 6, "{point}: {:?}", project.computed());
            project.assert_at_rest().await;
        }
    });
    each(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e17_worker_killed_with_its_driver_at_most_one_step_is_repeated() {
    let good = Project::new(&stages());
    good.run().await;
    let good = Arc::new(good.artifacts());
    let points = ["attempt.spawned:1", "attempt.recorded:2", "attempt.checkpoint:1", "attempt.checkpoint:3"];
    let cases = points.map(|point| {
        let good = Arc::clone(&good);
        async move {
            let project = Project::new(&stages());
            killed_at(&project, "run", point).await;
            for pid in project.processes() {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            until(|| project.processes().is_empty()).await;
            // The same `run` again does what `resume` does.
            assert_eq!(project.run().await.exit_code(), 0, "{point}");
            assert_eq!(project.artifacts(), *good, "{point}");
            assert!(project.total() <= 7, "{point}: {:?}", project.computed());
            project.assert_at_rest().await;
        }
    });
    each(cases.into()).await;
}

#[tokio::test]
async fn a_resumption_killed_right_after_it_took_the_lease_can_be_resumed() {
    let project = Project::new(&stages());
    let run_id = killed_at(&project, "run", "attempt.inserted").await.unwrap();
    let status = project.driver(&run_id, Some("run.leased")).wait().unwrap();
    assert_eq!(status.signal(), Some(9));
    assert_eq!(project.resume(&Resume::default()).await.exit_code(), 0);
    assert_eq!(project.total(), 6);
    project.assert_at_rest().await;
}

#[tokio::test]
async fn killed_right_after_a_failure_was_recorded_it_stays_failed() {
    let fails = Script { fail: Some(FailureClass::User), ..steps(1) };
    let project = Project::new(&[("a", &[], fails), ("b", &["a"], steps(1))]);
    killed_at(&project, "run", "stage.released").await.unwrap();
    let outcome = project.resume(&Resume::default()).await;
    assert_eq!((states(&outcome), outcome.exit_code()), (vec![Failed, Skipped], 1));
    assert_eq!(project.total(), 1);
    project.assert_at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e10_killed_while_a_result_is_replaced_a_whole_one_comes_out() {
    let points =
        fault::POINTS.iter().filter(|p| p.starts_with("publish.") || p.starts_with("attempt.spawned"));
    let cases = points.map(|point| async move {
        let project = Project::new(&[("a", &[], steps(2)), ("b", &["a"], steps(1))]);
        project.run().await;
        let good = project.artifacts();
        killed_at(&project, "force a", point).await.unwrap();
        let outcome = project.resume(&Resume::default()).await;
        assert_eq!(outcome.exit_code(), 0, "{point}");
        assert_eq!(project.artifacts(), good, "{point}");
        assert_eq!(project.total(), 6, "{point}: both stages ran again, once");
        project.assert_at_rest().await;
    });
    each(cases.collect()).await;
}
