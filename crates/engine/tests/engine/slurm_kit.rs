//! A project whose stages are jobs of `fake_slurm.sh`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use store::record::{Attempt, AttemptState, Stage};

use crate::kit::{Project, Stages, until};

pub struct Cluster {
    pub project: Project,
    fake: PathBuf,
}

impl Cluster {
    pub fn new(stages: &Stages) -> Self {
        let project = Project::new(stages);
        let fake = project.root.join("fake slurm");
        fs::create_dir_all(fake.join("bin")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/fake_slurm.sh");
        for name in ["sbatch", "squeue", "sacct", "scontrol", "scancel", "requeue"] {
            symlink(&script, fake.join("bin").join(name)).unwrap();
        }
        let cluster = Self { project, fake };
        cluster.configure(|_| ());
        cluster
    }

    /// Quick, and with what `change` asks for.
    pub fn configure(&self, change: impl Fn(&mut spec::Executor)) {
        self.project.change_plan(|plan| {
            let executor = &mut plan.executor;
            executor.place.kind = spec::ExecutorKind::Slurm;
            (executor.poll_interval, executor.search_time) = (0.05, 0.3);
            (executor.submit_rate, executor.command_timeout) = (1000.0, 20.0);
            change(executor);
        });
    }

    pub fn driver_command(&self, role: &str) -> Command {
        let mut command = self.project.driver_command(role);
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", self.fake.join("bin").display());
        command.env("PATH", path).env("FAKE", &self.fake);
        // As if the driver were a job itself.
        command.env("SLURM_JOB_ID", "4711").env("SBATCH_PARTITION", "wrong").env("XDG_RUNTIME_DIR", "/none");
        command
    }

    pub fn driver(&self, role: &str) -> Child {
        self.driver_command(role).spawn().unwrap()
    }

    /// Runs to the end, for the exit code.
    pub fn run(&self, role: &str) -> i32 {
        self.driver(role).wait().unwrap().code().unwrap()
    }

    pub fn kill(&self, mut driver: Child) {
        driver.kill().unwrap();
        driver.wait().unwrap();
    }

    /// The next calls of a command meet these faults.
    pub fn faults(&self, command: &str, faults: &[&str]) {
        fs::write(self.fake.join(format!("{command}.faults")), faults.join("\n") + "\n").unwrap();
    }

    /// How many faults are still to come.
    pub fn faults_left(&self, command: &str) -> usize {
        self.read(&format!("{command}.faults")).lines().count()
    }

    /// Makes a file that changes how the fake behaves: `sacct.off`, `scancel.single`, `hold`, `down`.
    pub fn switch(&self, name: &str) {
        fs::write(self.fake.join(name), "").unwrap();
    }

    pub fn switch_off(&self, name: &str) {
        fs::remove_file(self.fake.join(name)).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.fake.join(name)).unwrap_or_default()
    }

    /// Calls of a command, with their arguments.
    pub fn calls(&self, command: &str) -> Vec<String> {
        let calls = self.read("calls");
        calls.lines().filter(|line| line.split(' ').next() == Some(command)).map(str::to_owned).collect()
    }

    pub fn submitted(&self) -> usize {
        self.calls("sbatch").len()
    }

    /// Ends a job as its cluster does; its files are not written any more.
    pub fn end(&self, job: u64, state: &str) {
        fs::write(self.fake.join(format!("job.{job}.state")), state).unwrap();
        let pid: i32 = self.read(&format!("job.{job}.pid")).trim().parse().unwrap();
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        for pid in self.project.processes() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }

    /// The cluster puts a job back and starts it again.
    pub fn requeue(&self, job: u64) {
        let mut command = self.driver_command("");
        let path = command.get_envs().find(|(name, _)| *name == "PATH").unwrap().1.unwrap().to_owned();
        command = Command::new(self.fake.join("bin/requeue"));
        command.arg(job.to_string()).env("PATH", path).env("FAKE", &self.fake);
        assert!(command.status().unwrap().success());
    }

    pub async fn wait_for_state(&self, job: u64, state: &str) {
        until(|| self.read(&format!("job.{job}.state")).starts_with(state)).await;
    }

    /// The first job of a stage.
    pub fn job_of(&self, stage: &str) -> u64 {
        let is_its = |job: &u64| self.read(&format!("job.{job}.name")).contains(&format!("-{stage}-a1-"));
        (101..).take(10).find(is_its).unwrap()
    }

    pub async fn stage(&self, at: usize) -> Stage {
        let store = self.project.store().await;
        let run = store.runs(1).await.unwrap().remove(0);
        store.stages(&run.id).await.unwrap().swap_remove(at)
    }

    pub async fn attempts(&self) -> Vec<Attempt> {
        let store = self.project.store().await;
        let run = store.runs(1).await.unwrap().remove(0);
        store.attempts(&run.id).await.unwrap()
    }

    /// State, code and number of each attempt.
    pub async fn ends(&self) -> Vec<(AttemptState, String)> {
        let attempts = self.attempts().await;
        attempts.into_iter().map(|a| (a.state, a.code.unwrap_or_default())).collect()
    }

    pub async fn newest_run(&self) -> String {
        self.project.store().await.runs(1).await.unwrap().remove(0).id
    }
}
