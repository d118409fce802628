//! Driver, worker or both killed while one of them stands still at a point of its way.

use std::process::Child;
use std::sync::Arc;

use engine::Resume;
use nix::sys::signal::Signal::{SIGCONT, SIGKILL};
use store::fault;

use crate::kit::{Project, is_stopped, send, steps, until};
use crate::sweep::{each, stages};
use crate::worker::Script;

/// Asks a worker to stop or die at a point.
const WORKER_FAULT: &str = "PIPELINE_WORKER_FAULT_POINT";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Victim {
    Driver,
    Worker,
    Both,
}

/// Lets every worker that stops go on, until the driver has ended.
async fn let_go(project: &Project, driver: &mut Child) {
    until(|| {
        project.processes().into_iter().filter(|&pid| is_stopped(pid)).for_each(|pid| send(pid, SIGCONT));
        driver.try_wait().unwrap().is_some()
    })
    .await;
}

async fn killed_beside_a_worker_at(point: &str, victim: Victim) -> Project {
    let slow = Script { sleep_ms: 5, ..steps(3) };
    let project = Project::new(&[("a", &[], slow.clone()), ("b", &["a"], slow)]);
    let stop = format!("{point}=stop");
    let mut driver = project.driver_command("run").env(WORKER_FAULT, &stop).spawn().unwrap();
    let mut worker = None;
    until(|| {
        worker = project.processes().into_iter().find(|&pid| is_stopped(pid));
        worker.is_some()
    })
    .await;
    let worker = worker.unwrap();
    // To a group that is orphaned while it stands still, the kernel itself would send HUP.
    send(worker, if victim == Victim::Driver { SIGCONT } else { SIGKILL });
    if victim != Victim::Worker {
        driver.kill().unwrap();
    }
    let_go(&project, &mut driver).await;
    let status = driver.wait().unwrap();
    if victim == Victim::Worker {
        assert!(status.success(), "{point}: a killed worker is replaced");
    } else {
        assert_eq!(project.resume(&Resume::default()).await.exit_code(), 0, "{point} {victim:?}");
    }
    project
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e8_e17_e20_driver_worker_or_both_killed_at_every_point_of_a_worker() {
    let slow = Script { sleep_ms: 5, ..steps(3) };
    let good = Project::new(&[("a", &[], slow.clone()), ("b", &["a"], slow)]);
    good.run().await;
    let good = Arc::new(good.artifacts());
    let twice = |p: &&str| if p.starts_with("checkpoint.") { vec![1, 3] } else { vec![1] };
    let points =
        fault::WORKER_POINTS.iter().flat_map(|p| twice(p).into_iter().map(move |n| format!("{p}:{n}")));
    let cases = points.flat_map(|p| [Victim::Driver, Victim::Worker, Victim::Both].map(|v| (p.clone(), v)));
    let cases = cases.map(|(point, victim)| {
        let good = Arc::clone(&good);
        async move {
            let project = killed_beside_a_worker_at(&point, victim).await;
            assert_eq!(project.artifacts(), *good, "{point} {victim:?}");
            // A step is computed again only if its worker died before the step's checkpoint had its name.
            let lost = u32::from(victim != Victim::Driver && point.starts_with("checkpoint.written"));
            assert_eq!(project.total(), 6 + lost, "{point} {victim:?}: {:?}", project.computed());
            project.assert_at_rest().await;
        }
    });
    each(cases.collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e8_e17_a_worker_killed_at_every_point_of_its_driver() {
    let good = Project::new(&stages());
    good.run().await;
    let good = Arc::new(good.artifacts());
    let points = fault::POINTS.iter().filter(|p| !["run.leased", "stage.released"].contains(p));
    let cases = points.map(|point| {
        let good = Arc::clone(&good);
        async move {
            let project = Project::new(&stages());
            let stop = format!("{point}:1=stop");
            let mut driver = project.driver("run", Some(&stop));
            let pid = driver.id() as i32;
            until(|| is_stopped(pid)).await;
            project.processes().into_iter().for_each(|pid| send(pid, SIGKILL));
            until(|| project.processes().is_empty()).await;
            send(pid, SIGCONT);
            assert!(driver.wait().unwrap().success(), "{point}");
            assert_eq!(project.artifacts(), *good, "{point}");
            assert!(project.total() <= 7, "{point}: {:?}", project.computed());
            project.assert_at_rest().await;
        }
    });
    each(cases.collect()).await;
}
