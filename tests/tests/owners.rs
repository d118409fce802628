//! Two processes that want the same: one works, the other waits or is told who does.

use e2e::storm;
use e2e::{expect, kill_tree};
use testkit::Project;

fn project() -> Project {
    let project = Project::new();
    project.write("p.toml", storm::PIPELINE);
    project
}

#[test]
fn e16_e86_e89_a_run_has_one_owner_and_the_other_is_told_who() {
    let project = project();
    let dir = project.root();
    // The worker stands still as soon as it has begun, so that the run lives as long as the test wants.
    let mut owner = storm::driver(dir, &[(storm::WORKER_VARIABLE, "worker.started=stop")]);
    storm::wait_for_stop(&mut owner).expect("the worker stands still");
    let runs = expect(dir, &["runs", "--json"], 0);
    let runs: serde_json::Value = serde_json::from_slice(&runs.stdout).expect("JSON");
    let run = runs[0]["id"].as_str().expect("an id");
    let said = expect(dir, &["resume", run], 4).stderr;
    let said = String::from_utf8_lossy(&said);
    for part in [format!("pid {}", owner.id()), "pipeline run p.toml".into(), "E0306".into()] {
        assert!(said.contains(&part), "`{part}` is missing in {said}");
    }
    let status = expect(dir, &["status"], 0).stdout;
    assert!(String::from_utf8_lossy(&status).contains("running"), "it is shown while it is owned");

    kill_tree(owner.id());
    owner.wait().expect("it can be waited for");
    let status = expect(dir, &["status"], 0).stdout;
    let status = String::from_utf8_lossy(&status);
    assert!(status.contains("interrupted") && !status.contains("running"), "{status}");
    expect(dir, &["resume", run], 0);
    storm::assert_mended(dir, "a dead owner needs no unlocking");
}

#[test]
fn e89_runs_started_at_once_share_the_work() {
    let project = project();
    let drivers: Vec<_> = (0..6).map(|_| storm::driver(project.root(), &[])).collect();
    for mut driver in drivers {
        assert!(driver.wait().expect("it can be waited for").success());
    }
    storm::assert_mended(project.root(), "six runs");
    let begun = storm::begun(project.root());
    assert!(begun.values().all(|&n| n == 1), "each stage was made once: {begun:?}");
}
