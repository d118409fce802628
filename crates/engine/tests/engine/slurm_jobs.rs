//! Stages as Slurm jobs: drivers that die, jobs that are put back, stopped, or end in every way there is.

use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use store::record::AttemptState::{Dead, Failed, Stopped, Succeeded};
use store::record::{RunState, StageState};

use crate::kit::{steps, until};
use crate::slurm_kit::Cluster;
use crate::worker::Script;

fn slow(steps: u64) -> Script {
    Script { steps, sleep_ms: 40, ..Script::default() }
}

#[tokio::test]
async fn three_stages_are_three_jobs_that_ask_for_what_was_asked_for() {
    let cluster = Cluster::new(&[("a", &[], steps(2)), ("b", &["a"], steps(1)), ("c", &["b"], steps(1))]);
    cluster.configure(|executor| {
        executor.place.partition = "main".into();
        let own = spec::Place { gres: "gpu:1".into(), ..executor.place.clone() };
        executor.overrides.stages.insert("b".into(), own);
        let local = spec::Place { kind: spec::ExecutorKind::Local, ..executor.place.clone() };
        executor.overrides.stages.insert("c".into(), local);
    });
    assert_eq!(cluster.run("run"), 0);
    assert_eq!(cluster.submitted(), 2, "the third one is local");
    let attempts = cluster.attempts().await;
    assert_eq!(attempts.iter().map(|a| a.executor.as_str()).collect::<Vec<_>>(), ["slurm", "slurm", "local"]);
    for (attempt, gres) in attempts.iter().zip([false, true]) {
        let folder = cluster.project.state().join("attempts").join(&attempt.id);
        let script = std::fs::read_to_string(folder.join("job.sh")).unwrap();
        assert!(script.contains("#SBATCH --partition=\"main\"\n"));
        assert_eq!(script.contains("#SBATCH --gres=\"gpu:1\"\n"), gres, "e124");
    }
    let call = &cluster.calls("sbatch")[0];
    assert!(call.contains("--parsable --export=NONE ") && call.contains("--open-mode=append"), "{call}");
    assert!(call.contains(r#""stage":"a","attempt":1"#) || call.contains(r#""attempt":1"#), "{call}");
    assert_eq!(cluster.read("foreign"), "", "e125: nothing of a surrounding job is passed on");
    assert!(cluster.calls("scancel").is_empty());
    cluster.project.assert_at_rest().await;
}

#[tokio::test]
async fn e1_e4_a_job_that_ends_without_its_driver_is_taken_and_not_run_again() {
    let cluster = Cluster::new(&[("a", &[], slow(6))]);
    let driver = cluster.driver("run");
    cluster.project.wait_for_step("a 2").await;
    cluster.kill(driver);
    cluster.wait_for_state(101, "COMPLETED").await;
    assert_eq!(cluster.run(&cluster.newest_run().await), 0);
    assert_eq!((cluster.submitted(), cluster.project.total()), (1, 6));
    assert_eq!(cluster.stage(0).await.state, StageState::Succeeded);
}

#[tokio::test]
async fn e1_a_job_that_still_runs_is_adopted() {
    let cluster = Cluster::new(&[("a", &[], slow(15)), ("b", &["a"], steps(1))]);
    let driver = cluster.driver("run");
    cluster.project.wait_for_step("a 2").await;
    cluster.kill(driver);
    assert_eq!(cluster.run(&cluster.newest_run().await), 0);
    assert_eq!((cluster.submitted(), cluster.project.total()), (2, 16));
}

#[tokio::test]
async fn e17_a_driver_that_dies_at_any_point_leaves_one_job() {
    let points = store::fault::POINTS.iter().filter(|point| {
        ["attempt.", "publish."].iter().any(|part| point.starts_with(part)) && **point != "attempt.ended"
    });
    for (at, point) in points.enumerate() {
        let cluster = Cluster::new(&[("a", &[], steps(4))]);
        if at % 2 == 1 {
            cluster.switch("sacct.off");
        }
        let mut command = cluster.driver_command("run");
        let status = command.env(store::fault::VARIABLE, point).status().unwrap();
        if status.code() == Some(0) {
            panic!("{point} is not passed");
        }
        let before = ["attempt.inserted", "attempt.requested"].contains(point);
        assert_eq!(cluster.submitted(), usize::from(!before), "{point}");
        assert_eq!(cluster.run(&cluster.newest_run().await), 0, "{point}");
        assert_eq!((cluster.submitted(), cluster.project.total()), (1, 4), "{point}");
    }
}

#[tokio::test]
async fn e119_a_failed_node_is_avoided_unless_there_is_no_other_one() {
    let cluster = Cluster::new(&[("a", &[], slow(20))]);
    let mut driver = cluster.driver("run");
    cluster.project.wait_for_step("a 3").await;
    // It has been seen where it runs.
    let polls = cluster.calls("squeue").len();
    until(|| cluster.calls("squeue").len() > polls + 1).await;
    cluster.faults("sbatch", &["deny Requested node configuration is not available"]);
    cluster.end(101, "NODE_FAIL");
    assert_eq!(driver.wait().unwrap().code(), Some(0));
    assert_eq!(cluster.submitted(), 3, "one of them was refused");
    assert_eq!(cluster.ends().await, [(Dead, "E0343".into()), (Succeeded, String::new())]);
}

#[tokio::test]
async fn e7_e118_a_job_that_slurm_puts_back_is_followed_and_goes_on_where_it_was() {
    let cluster = Cluster::new(&[("a", &[], slow(12))]);
    cluster.configure(|executor| executor.place.requeue = true);
    // It is seen as preempted for a moment.
    let mut driver = cluster.driver("run");
    cluster.project.wait_for_step("a 4").await;
    cluster.end(101, "PENDING");
    let polls = cluster.calls("squeue").len();
    until(|| cluster.calls("squeue").len() > polls + 2).await;
    cluster.faults("squeue", &["word PREEMPTED"]);
    until(|| cluster.faults_left("squeue") == 0).await;
    cluster.requeue(101);
    assert_eq!(driver.wait().unwrap().code(), Some(0));
    assert_eq!(cluster.submitted(), 1);
    assert!(cluster.project.total() <= 13, "at most the step under way: {:?}", cluster.project.computed());
    assert_eq!(cluster.ends().await, [(Succeeded, String::new())]);
}

#[tokio::test]
async fn e119_e122_every_end_of_a_job_is_noticed_and_what_is_not_the_stages_fault_costs_nothing() {
    let ends = [
        ("NODE_FAIL", "E0343"),
        ("PREEMPTED", "E0343"),
        ("REVOKED", "E0343"),
        ("TIMEOUT", "E0342"),
        ("DEADLINE", "E0342"),
        ("OUT_OF_MEMORY", "E0344"),
        ("BOOT_FAIL", "E0345"),
    ];
    let cluster = Cluster::new(&[("a", &[], slow(200))]);
    // A new checkpoint in each job gives its allowance back; without one only displaced jobs are free.
    cluster.configure(|executor| executor.infra_retries = 1);
    let mut driver = cluster.driver("run");
    for (at, (state, _)) in ends.iter().enumerate() {
        let before = cluster.project.total();
        until(|| cluster.project.total() > before + 1).await;
        cluster.end(101 + at as u64, state);
        until(|| cluster.submitted() == at + 2).await;
    }
    kill(Pid::from_raw(driver.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(driver.wait().unwrap().code(), Some(130));
    let mut expected: Vec<_> = ends.iter().map(|(_, code)| (Dead, (*code).to_owned())).collect();
    expected.push((Stopped, String::new()));
    assert_eq!(cluster.ends().await, expected);
    let scripts = cluster.attempts().await.into_iter().map(|attempt| {
        let folder = cluster.project.state().join("attempts").join(attempt.id);
        std::fs::read_to_string(folder.join("job.sh")).unwrap()
    });
    let avoid: Vec<bool> = scripts.map(|script| script.contains("#SBATCH --exclude=\"n1\"\n")).collect();
    assert_eq!(avoid[..2], [false, true], "a node that failed is left out");
    let repeated = cluster.project.computed().values().filter(|times| **times > 1).count();
    assert!(repeated <= ends.len(), "each job goes on from the last checkpoint");
}

#[tokio::test]
async fn e43_a_displaced_job_is_free_and_others_are_not() {
    let cluster = Cluster::new(&[("a", &[], Script { steps: 1, sleep_ms: 60_000, ..Script::default() })]);
    cluster.configure(|executor| executor.infra_retries = 0);
    let mut driver = cluster.driver("run");
    for job in [101, 102, 103] {
        let began = format!("job.{job}.pid");
        until(|| !cluster.read(&began).is_empty() && !cluster.project.processes().is_empty()).await;
        cluster.end(job, if job < 103 { "NODE_FAIL" } else { "TIMEOUT" });
    }
    assert_eq!(driver.wait().unwrap().code(), Some(1));
    let codes: Vec<String> = cluster.ends().await.into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, ["E0343", "E0343", "E0342"]);
}

#[tokio::test]
async fn e22_a_job_that_is_warned_of_its_end_writes_a_checkpoint_and_costs_nothing() {
    let cluster = Cluster::new(&[("a", &[], slow(12))]);
    cluster.configure(|executor| executor.infra_retries = 0);
    let mut driver = cluster.driver("run");
    for (job, step) in [(101, "a 3"), (102, "a 7")] {
        cluster.project.wait_for_step(step).await;
        let pid: i32 = cluster.read(&format!("job.{job}.pid")).trim().parse().unwrap();
        kill(Pid::from_raw(pid), Signal::SIGUSR1).unwrap();
    }
    assert_eq!(driver.wait().unwrap().code(), Some(0));
    let ends = [(Stopped, String::new()), (Stopped, String::new()), (Succeeded, String::new())];
    assert_eq!((cluster.submitted(), cluster.ends().await), (3, ends.to_vec()));
    assert_eq!(cluster.project.total(), 12, "no step twice");
}

#[tokio::test]
async fn e122_a_job_that_someone_cancels_is_not_submitted_again() {
    let cluster = Cluster::new(&[("a", &[], slow(500))]);
    let mut driver = cluster.driver("run");
    cluster.project.wait_for_step("a 2").await;
    cluster.end(101, "CANCELLED by 30065");
    assert_eq!(driver.wait().unwrap().code(), Some(1));
    assert_eq!((cluster.submitted(), cluster.ends().await), (1, vec![(Dead, "E0341".into())]));
}

#[tokio::test]
async fn e14_a_refused_job_fails_at_once_and_is_asked_for_again_by_resume() {
    let cluster = Cluster::new(&[("a", &[], steps(1))]);
    cluster.faults("sbatch", &["deny Invalid account or account/partition combination specified"]);
    assert_eq!(cluster.run("run"), 1);
    assert_eq!((cluster.submitted(), cluster.ends().await), (1, vec![(Failed, "E0340".into())]));
    assert!(cluster.attempts().await[0].message.as_ref().unwrap().contains("Invalid account"));
    assert_eq!(cluster.run(&cluster.newest_run().await), 0);
}

#[tokio::test]
async fn e95_e98_e100_a_driver_that_is_terminated_takes_its_jobs_along() {
    let script = Script { stubborn: true, ..slow(5000) };
    let cluster = Cluster::new(&[("a", &[], script.clone()), ("b", &[], slow(5000)), ("c", &[], slow(5000))]);
    cluster.switch("scancel.single");
    let mut driver = cluster.driver("run");
    for step in ["a 2", "b 2", "c 2"] {
        cluster.project.wait_for_step(step).await;
    }
    let pid = Pid::from_raw(driver.id() as i32);
    // A checkpoint first, then by force.
    kill(pid, Signal::SIGTERM).unwrap();
    for stage in ["b", "c"] {
        cluster.wait_for_state(cluster.job_of(stage), "FAILED").await;
    }
    let state = cluster.read(&format!("job.{}.state", cluster.job_of("a")));
    assert!(state.starts_with("RUNNING"), "it pays no attention");
    kill(pid, Signal::SIGINT).unwrap();
    let terminated = format!("scancel {}", cluster.job_of("a"));
    until(|| cluster.calls("scancel").contains(&terminated)).await;
    kill(pid, Signal::SIGINT).unwrap();
    assert_eq!(driver.wait().unwrap().code(), Some(143));
    assert_eq!(cluster.ends().await, vec![(Stopped, String::new()); 3]);
    let batched = cluster.calls("scancel").iter().filter(|call| call.matches(" 10").count() > 1).count();
    assert!(batched > 0, "several ids are tried together first: {:?}", cluster.calls("scancel"));
    cluster.project.assert_at_rest().await;
}

#[tokio::test]
async fn e83_a_job_that_waits_is_cancelled_and_does_not_begin_later() {
    let cluster = Cluster::new(&[("a", &[], steps(3))]);
    cluster.switch("hold");
    let mut driver = cluster.driver("run");
    until(|| cluster.read("job.101.state").starts_with("PENDING")).await;
    until(|| !cluster.calls("squeue").is_empty()).await;
    kill(Pid::from_raw(driver.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(driver.wait().unwrap().code(), Some(130));
    assert!(cluster.read("job.101.state").starts_with("CANCELLED"));
    // It begins all the same.
    cluster.requeue(101);
    cluster.wait_for_state(101, "COMPLETED").await;
    assert_eq!(cluster.project.total(), 0);
    assert_eq!(cluster.project.store().await.runs(1).await.unwrap()[0].state, RunState::Stopped);
}

#[tokio::test]
async fn e2_e112_a_script_runs_its_attempt_once_and_believes_no_other_attempts_files() {
    let cluster = Cluster::new(&[("a", &[], slow(10))]);
    let mut driver = cluster.driver("run");
    cluster.project.wait_for_step("a 2").await;
    let attempt = cluster.attempts().await.remove(0);
    let folder = cluster.project.state().join("attempts").join(&attempt.id);
    let other = r#"{"nonce":"of another attempt","job":101,"code":0}"#;
    std::fs::write(folder.join("exit.json"), other).unwrap();
    std::fs::write(folder.join("manifest.json"), other).unwrap();
    // The same submission, accepted a second time.
    let again = |job: &str| {
        let script = folder.join("job.sh");
        Command::new("bash").arg(script).env("SLURM_JOB_ID", job).current_dir(&cluster.project.root).status()
    };
    std::fs::remove_file(folder.join("exit.json")).unwrap();
    assert!(again("999").unwrap().success());
    std::fs::write(folder.join("exit.json"), other).unwrap();
    assert_eq!(driver.wait().unwrap().code(), Some(0));
    assert!(again("101").unwrap().success());
    assert_eq!((cluster.project.total(), cluster.submitted()), (10, 1));
}

#[tokio::test]
async fn e131_keys_go_by_name_from_the_drivers_environment_to_the_stage() {
    let cluster = Cluster::new(&[("a", &[], steps(1))]);
    cluster.configure(|executor| {
        executor.place.export = vec!["MY_TOKEN".into(), "NOT_SET".into()];
        executor.place.setup = vec!["test \"$MY_TOKEN\" = sekret-4711".into()];
    });
    let mut command = cluster.driver_command("run");
    assert_eq!(command.env("MY_TOKEN", "sekret-4711").status().unwrap().code(), Some(0));
    assert!(cluster.calls("sbatch")[0].contains("--export=MY_TOKEN "));
    let attempt = cluster.attempts().await.remove(0);
    let folder = cluster.project.state().join("attempts").join(&attempt.id);
    for entry in std::fs::read_dir(&folder).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        let text = std::fs::read(entry.path()).unwrap();
        let found = text.windows(11).any(|part| part == b"sekret-4711");
        // The test's own condition is in the script.
        assert!(!found || entry.file_name() == "job.sh", "{:?}", entry.path());
    }
    assert!(!cluster.read("calls").contains("sekret"));
}
