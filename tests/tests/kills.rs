//! Driver, worker or both killed with SIGKILL at a point of either; afterwards the results are those of a
//! calm run, and nothing was done twice without need. `cargo xtask soak` runs every point.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use e2e::storm::{self, Random};
use e2e::{assert_same_results, expect, kill_tree, pipeline, tree};
use store::fault::{POINTS, VARIABLE, WORKER_POINTS};
use testkit::Project;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Victim {
    Driver,
    Worker,
    Both,
}

const VICTIMS: [Victim; 3] = [Victim::Driver, Victim::Worker, Victim::Both];

/// One kill at a point, perhaps some more at random times, then the check.
struct Case {
    point: String,
    victim: Victim,
    /// Kills at random times afterwards.
    extra: Vec<(Victim, u64)>,
}

fn project() -> Project {
    let project = Project::new();
    project.write("p.toml", storm::PIPELINE);
    project
}

fn calm() -> Project {
    let project = project();
    expect(project.root(), &["run", "p.toml"], 0);
    project
}

/// Kills workers (all processes below the driver), the driver, or all of them.
fn kill(driver: &mut std::process::Child, victim: Victim) {
    match victim {
        Victim::Driver => {
            driver.kill().expect("it can be killed");
            driver.wait().expect("it can be waited for");
        }
        Victim::Worker => storm::signal("-KILL", &tree(driver.id())[1..]),
        Victim::Both => {
            kill_tree(driver.id());
            driver.wait().expect("it can be waited for");
        }
    }
}

/// Plays a case; false when the point was not reached.
fn play(case: &Case, calm: &Path) -> bool {
    let project = project();
    let dir = project.root();
    let what = format!("{} {:?} {:?}", case.point, case.victim, case.extra);
    let name = case.point.split(':').next().unwrap_or_default();
    let variable = if WORKER_POINTS.contains(&name) { storm::WORKER_VARIABLE } else { VARIABLE };
    let mut driver = storm::driver(dir, &[(variable, &format!("{}=stop", case.point))]);
    let reached = storm::wait_for_stop(&mut driver);
    if let Some(stopped) = reached {
        // The kernel itself sends HUP to a group that is orphaned while it stands still.
        if case.victim == Victim::Driver && stopped != driver.id() {
            storm::signal("-CONT", &[stopped]);
        }
        kill(&mut driver, case.victim);
    }
    if case.victim == Victim::Worker {
        assert_eq!(storm::let_go(&mut driver), Some(0), "{what}: a killed worker is replaced");
    }
    _ = driver.wait();
    for (victim, delay) in &case.extra {
        let mut driver = storm::driver(dir, &[]);
        std::thread::sleep(Duration::from_millis(*delay));
        kill(&mut driver, *victim);
        if *victim == Victim::Worker {
            assert_eq!(storm::let_go(&mut driver), Some(0), "{what}: a killed worker is replaced");
        }
    }
    if case.extra.is_empty() {
        // Code 2: the run had ended, there is nothing to go on with.
        let resumed = pipeline(dir, &["resume"]).output().expect("pipeline starts");
        let said = String::from_utf8_lossy(&resumed.stderr).into_owned();
        assert!(matches!(resumed.status.code(), Some(0 | 2)), "{what}: {said}");
    }
    storm::assert_mended(dir, &what);
    assert_same_results(calm, dir);
    let begun = storm::begun(dir);
    let lost = usize::from(case.victim != Victim::Driver)
        + case.extra.iter().filter(|e| e.0 != Victim::Driver).count();
    assert_eq!(begun.len(), storm::STAGES, "{what}: {begun:?}");
    assert!(begun.values().all(|&n| n >= 1), "{what}: {begun:?}");
    assert!(begun.values().sum::<usize>() <= storm::STAGES + lost, "{what}: done twice: {begun:?}");
    reached.is_some()
}

/// Plays cases, several at a time; gives how many reached their point.
fn play_all(cases: Vec<Case>) -> usize {
    let calm = calm();
    let (left, reached) = (Mutex::new(cases), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let case = left.lock().expect("no case panics while it is taken").pop();
                    let Some(case) = case else { return };
                    reached.fetch_add(usize::from(play(&case, calm.root())), Ordering::SeqCst);
                }
            });
        }
    });
    reached.into_inner()
}

#[test]
fn e8_e17_e80_killed_at_a_point_it_gives_the_same_bytes_and_computes_nothing_twice() {
    let cases = [
        ("run.created:1", Victim::Driver),
        ("attempt.inserted:1", Victim::Both),
        ("attempt.spawned:1", Victim::Driver),
        ("attempt.recorded:2", Victim::Both),
        ("attempt.recorded:1", Victim::Worker),
        ("publish.manifest:1", Victim::Both),
        ("publish.renamed:2", Victim::Driver),
        ("publish.committed:3", Victim::Driver),
        ("worker.started:1", Victim::Driver),
        ("checkpoint.written:1", Victim::Worker),
        ("checkpoint.renamed:2", Victim::Both),
        ("worker.finished:1", Victim::Driver),
        ("worker.sealed:1", Victim::Both),
    ];
    let cases = cases.map(|(point, victim)| Case { point: point.into(), victim, extra: Vec::new() });
    let count = cases.len();
    assert_eq!(play_all(cases.into()), count, "every point was reached");
}

/// Every point, the first and the second time it is passed, for driver, worker and both; and as often with
/// further kills at random times.
#[test]
#[ignore = "long: cargo xtask soak"]
fn soak_kills() {
    let seed = storm::number("PIPELINE_SOAK_SEED", 1);
    println!("soak: kills, seed {seed}");
    let mut random = Random(seed);
    let mut cases = Vec::new();
    for name in POINTS.iter().chain(WORKER_POINTS) {
        for (time, victim) in [1, 2].into_iter().flat_map(|time| VICTIMS.map(|victim| (time, victim))) {
            let mut extra = Vec::new();
            for _ in 0..random.below(3) {
                extra.push((VICTIMS[random.below(3) as usize], random.below(900)));
            }
            cases.push(Case { point: format!("{name}:{time}"), victim, extra });
        }
    }
    let (count, extra) = (cases.len(), cases.iter().map(|case| case.extra.len()).sum::<usize>());
    let reached = play_all(cases);
    println!("soak: {count} cases, {reached} reached their point, {extra} further kills; no violation");
    assert!(reached > count / 2);
}

/// As a scheduler does that puts a job back: the same command once more, on the same folder.
#[test]
fn e7_a_worker_started_again_for_its_attempt_goes_on_from_its_own_checkpoint() {
    let (calm, project) = (calm(), project());
    let dir = project.root();
    let mut driver = storm::driver(dir, &[(VARIABLE, "attempt.requested")]);
    driver.wait().expect("it can be waited for");
    let attempt = std::fs::read_dir(project.path(".pipeline/attempts")).expect("it is there").next();
    let attempt = attempt.expect("one").expect("it reads").path();
    let worker = |fault: Option<&str>| {
        let mut command = pipeline(dir, &["worker", attempt.to_str().expect("UTF-8")]);
        command.envs(fault.map(|point| (VARIABLE, point)));
        command.output().expect("the worker starts").status.code()
    };
    assert_eq!(worker(Some("checkpoint.renamed:2")), None, "killed after step 4 of 6");
    assert_eq!(worker(None), Some(0));
    let events = std::fs::read_to_string(attempt.join("events.jsonl")).expect("it reads");
    for step in 1..=6 {
        let line = format!("{{\"type\":\"metrics\",\"step\":{step},");
        assert_eq!(events.matches(&line).count(), 1, "step {step} is computed once");
    }
    expect(dir, &["resume"], 0);
    storm::assert_mended(dir, "its result was taken");
    assert_same_results(calm.root(), dir);
    assert_eq!(storm::begun(dir)["base"], 2, "no third time");
}
