//! A Slurm that answers late, wrongly, half, or not at all: nothing is lost, cancelled, or submitted twice.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use store::record::AttemptState::{Dead, Succeeded};

use crate::kit::{steps, until};
use crate::slurm_kit::Cluster;
use crate::worker::Script;

fn slow(steps: u64) -> Script {
    Script { steps, sleep_ms: 40, ..Script::default() }
}

#[tokio::test]
async fn e112_a_job_that_was_taken_without_a_clear_answer_is_found_by_its_name() {
    let timed_out = "lost Socket timed out on send/recv operation";
    for fault in [timed_out, "lost Unspecified error", "silent", "hang", "banner"] {
        let cluster = Cluster::new(&[("a", &[], slow(5))]);
        cluster.configure(|executor| {
            if fault == "hang" {
                executor.command_timeout = 1.0;
            }
            executor.search_time = 60.0;
        });
        cluster.faults("sbatch", &[fault]);
        // Nor is it there at once.
        cluster.faults("squeue", &["hide", "fail Unable to contact slurm controller", "cut"]);
        cluster.switch("sacct.off");
        assert_eq!(cluster.run("run"), 0, "{fault}");
        assert_eq!((cluster.submitted(), cluster.project.total()), (1, 5), "{fault}");
        assert_eq!(cluster.ends().await, [(Succeeded, String::new())], "{fault}");
    }
}

#[tokio::test]
async fn e113_limits_and_a_busy_controller_are_waited_for() {
    let cluster = Cluster::new(&[("a", &[], steps(2))]);
    cluster.configure(|executor| (executor.search_time, executor.infra_retries) = (0.05, 0));
    let busy = [
        "deny QOSMaxSubmitJobPerUserLimit",
        "deny Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
        "deny Socket timed out on send/recv operation",
    ];
    cluster.faults("sbatch", &busy);
    assert_eq!(cluster.run("run"), 0);
    assert_eq!(cluster.submitted(), 4);
    assert_eq!(cluster.ends().await, [(Succeeded, String::new())], "it cost no attempt");
}

#[tokio::test]
async fn e18_e19_e76_e121_what_slurm_does_not_know_ends_no_job() {
    let cluster = Cluster::new(&[("a", &[], slow(60))]);
    cluster.configure(|executor| (executor.poll_interval, executor.search_time) = (0.01, 0.05));
    cluster.switch("sacct.off");
    let answers = ["fail Socket timed out", "word UNKNOWN", "cut", "", "word NODE_MAGIC", "fail x", "hide"];
    let many: Vec<&str> = answers.iter().copied().cycle().take(35).collect();
    cluster.faults("squeue", &many);
    let mut driver = cluster.driver("run");
    assert_eq!(driver.wait().unwrap().code(), Some(0));
    assert!(cluster.faults_left("squeue") < 30, "it was asked often");
    assert_eq!((cluster.submitted(), cluster.project.total()), (1, 60));
    assert!(cluster.calls("scancel").is_empty());
}

#[tokio::test]
async fn e115_e116_a_job_that_the_queue_has_forgotten_is_asked_for_elsewhere() {
    for (sacct, code) in [(true, "E0343"), (false, "E0326")] {
        let cluster = Cluster::new(&[("a", &[], slow(20))]);
        if !sacct {
            cluster.switch("sacct.off");
        }
        let driver = cluster.driver("run");
        cluster.project.wait_for_step("a 3").await;
        cluster.kill(driver);
        cluster.end(101, "NODE_FAIL");
        cluster.switch("job.101.forgotten");
        let run = cluster.newest_run().await;
        assert_eq!(cluster.run(&run), 0);
        assert_eq!(cluster.submitted(), 2);
        assert_eq!(cluster.ends().await, [(Dead, code.to_owned()), (Succeeded, String::new())]);
        assert!(cluster.project.total() <= 21, "the second job goes on from the checkpoint");
        let asked = cluster.calls("sacct");
        assert!(asked.iter().all(|call| call.contains("--starttime=now-")), "{asked:?}");
        assert!(sacct || asked.len() == 1, "a disabled sacct is asked once: {asked:?}");
    }
}

#[tokio::test]
async fn e77_a_finished_job_whose_files_do_not_appear_is_given_time_and_then_up() {
    let cluster = Cluster::new(&[("a", &[], Script { steps: 1, sleep_ms: 60_000, ..Script::default() })]);
    cluster.configure(|executor| executor.infra_retries = 0);
    let mut driver = cluster.driver("run");
    until(|| !cluster.project.processes().is_empty()).await;
    cluster.end(101, "COMPLETED");
    assert_eq!(driver.wait().unwrap().code(), Some(1));
    let attempt = cluster.attempts().await.remove(0);
    assert_eq!(attempt.message.as_deref(), Some("ended without a manifest"));
}

#[tokio::test]
async fn e19_a_driver_can_be_ended_though_slurm_does_not_answer_and_its_job_is_not_lost() {
    let cluster = Cluster::new(&[("a", &[], slow(200))]);
    let mut driver = cluster.driver("run");
    cluster.project.wait_for_step("a 2").await;
    cluster.switch("down");
    let pid = Pid::from_raw(driver.id() as i32);
    let mut code = None;
    until(|| {
        kill(pid, Signal::SIGINT).unwrap();
        code = driver.try_wait().unwrap().map(|status| status.code());
        code.is_some()
    })
    .await;
    assert_eq!(code, Some(Some(5)));
    assert_eq!(cluster.attempts().await[0].state, store::record::AttemptState::Running);
    cluster.switch_off("down");
    assert_eq!(cluster.run(&cluster.newest_run().await), 0);
    assert_eq!((cluster.submitted(), cluster.project.total()), (1, 200));
}
