//! A project folder with a plan, drivers inside this process and as processes of their own, and what can
//! be asked about the outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use engine::{Control, Engine, EngineError, Options, Resume, RunOutcome, Update};
use plan::{Fingerprint, Plan, PlannedStage};
use store::Store;
use store::lease::{Liveness, Owner};
use store::record::StageState;
use tokio::sync::mpsc;

use crate::worker::{self, Script};

const ROLE: &str = "ENGINE_TEST_ROLE";

/// Not a test by itself: what this binary does when it is started again as driver or worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actor_entry() {
    if std::env::var_os(engine::protocol::env::ATTEMPT).is_some() {
        worker::main(PathBuf::from(std::env::args_os().next_back().unwrap())).await;
    }
    let Ok(role) = std::env::var(ROLE) else { return };
    let project = Project { root: std::env::current_dir().unwrap(), _dir: None };
    let engine = project.engine().await;
    engine::signals::listen(engine.control()).unwrap();
    let (updates, mut received) = mpsc::unbounded_channel();
    tokio::spawn(async move { while received.recv().await.is_some() {} });
    let outcome = match role.split_once(' ') {
        Some((_, forced)) => {
            let force = BTreeSet::from([forced.to_owned()]);
            engine.run(&project.plan(), "p.toml", &force, updates).await
        }
        None if role == "run" => engine.run(&project.plan(), "p.toml", &BTreeSet::new(), updates).await,
        None => engine.resume(&role, &Resume::default(), updates).await,
    };
    let code = match outcome {
        Ok(outcome) => outcome.exit_code(),
        Err(error) => {
            eprintln!("{error}");
            error.exit_code()
        }
    };
    std::process::exit(i32::from(code));
}

/// What a worker of the tests is started by.
pub fn worker_command() -> Vec<OsString> {
    let exe = std::env::current_exe().unwrap().into_os_string();
    let args = ["--exact", "kit::actor_entry", "--nocapture"].map(OsString::from);
    std::iter::once(exe).chain(args).collect()
}

/// A project folder.
pub struct Project {
    pub root: PathBuf,
    _dir: Option<tempfile::TempDir>,
}

/// Stages by name, with what they depend on and what they do.
pub type Stages<'a> = [(&'a str, &'a [&'a str], Script)];

pub fn steps(steps: u64) -> Script {
    Script { steps, ..Script::default() }
}

impl Project {
    pub fn new(stages: &Stages) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let project = Self { root: dir.path().canonicalize().unwrap(), _dir: Some(dir) };
        project.write_plan(stages);
        project
    }

    pub fn write_plan(&self, stages: &Stages) {
        let plan = make_plan(stages);
        std::fs::write(self.root.join("plan.json"), serde_json::to_vec(&plan).unwrap()).unwrap();
    }

    pub fn change_plan(&self, change: impl Fn(&mut Plan)) {
        let mut plan = self.plan();
        change(&mut plan);
        std::fs::write(self.root.join("plan.json"), serde_json::to_vec(&plan).unwrap()).unwrap();
    }

    pub fn plan(&self) -> Plan {
        serde_json::from_slice(&std::fs::read(self.root.join("plan.json")).unwrap()).unwrap()
    }

    pub fn state(&self) -> PathBuf {
        self.root.join(".pipeline")
    }

    pub async fn store(&self) -> Store {
        Store::open(&self.state(), "pipeline test").await.unwrap()
    }

    pub async fn engine(&self) -> Engine {
        let options = Options::new(worker_command(), self.root.clone(), "pipeline run p.toml".into());
        Engine::new(self.store().await, options)
    }

    /// Runs in this process.
    pub async fn run(&self) -> RunOutcome {
        self.run_with(&[], |_, _| ()).await.unwrap()
    }

    /// Runs in this process, with stages to force; `each` sees every update and can stop the run.
    pub async fn run_with(
        &self,
        force: &[&str],
        mut each: impl FnMut(&Update, &Control),
    ) -> Result<RunOutcome, EngineError> {
        let engine = self.engine().await;
        let control = engine.control();
        let (updates, mut received) = mpsc::unbounded_channel();
        let force = force.iter().map(|s| (*s).to_owned()).collect();
        let plan = self.plan();
        let run = engine.run(&plan, "p.toml", &force, updates);
        let listen = async {
            while let Some(update) = received.recv().await {
                each(&update, &control);
            }
        };
        tokio::join!(run, listen).0
    }

    /// Goes on with the newest run, in this process.
    pub async fn resume(&self, resume: &Resume) -> RunOutcome {
        let engine = self.engine().await;
        let run = engine.store().runs(1).await.unwrap().remove(0);
        engine.resume(&run.id, resume, mpsc::unbounded_channel().0).await.unwrap()
    }

    /// Starts a driver process: `run`, `force STAGE`, or the id of a run to resume.
    pub fn driver(&self, role: &str, fault: Option<&str>) -> Child {
        let mut command = self.driver_command(role);
        if let Some(fault) = fault {
            command.env(store::fault::VARIABLE, fault);
        }
        command.spawn().unwrap()
    }

    /// A driver process that is not started yet.
    pub fn driver_command(&self, role: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "kit::actor_entry", "--nocapture"]).env(ROLE, role).current_dir(&self.root);
        command.stdout(Stdio::null()).stderr(Stdio::inherit());
        command
    }

    /// Lines of `steps.log`: how often each stage computed each step.
    pub fn computed(&self) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        let text = std::fs::read_to_string(self.root.join("steps.log")).unwrap_or_default();
        for line in text.lines() {
            *counts.entry(line.to_owned()).or_default() += 1;
        }
        counts
    }

    /// How many steps were computed, again included.
    pub fn total(&self) -> u32 {
        self.computed().values().sum()
    }

    /// Every file of every artifact.
    pub fn artifacts(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let root = self.state().join("artifacts");
        let list = store::files::inventory(&root).unwrap();
        list.into_iter()
            .map(|f| (f.path.clone().into(), std::fs::read(root.join(&f.path)).unwrap()))
            .collect()
    }

    /// Live processes of any attempt in this project.
    pub fn processes(&self) -> Vec<i32> {
        let attempts = std::fs::read_dir(self.state().join("attempts")).into_iter().flatten().flatten();
        let ids = attempts.map(|e| e.file_name().into_string().unwrap());
        ids.flat_map(|id| store::process::with_variable(engine::protocol::env::ATTEMPT, &id)).collect()
    }

    /// Waits until a step has been computed.
    pub async fn wait_for_step(&self, step: &str) {
        until(|| self.computed().contains_key(step)).await;
    }

    /// Nothing of the state folder says that anything is still going on.
    pub async fn assert_at_rest(&self) {
        assert_eq!(self.processes(), [] as [i32; 0]);
        let mut raw = raw(&self.state()).await;
        let store = Store::open_existing(&self.state()).await.unwrap();
        let leases: Vec<Owner> = sqlx::query_as("SELECT * FROM leases").fetch_all(&mut raw).await.unwrap();
        let live: Vec<_> = leases.iter().filter(|o| store.liveness(o) != Liveness::Dead).collect();
        assert!(live.is_empty(), "{live:?}");
        let open = "SELECT COUNT(*) FROM attempts WHERE state IN ('starting', 'running')";
        assert_eq!(sqlx::query_scalar::<_, i64>(open).fetch_one(&mut raw).await.unwrap(), 0);
        for run in store.runs(10).await.unwrap() {
            assert_ne!(run.state, store::record::RunState::Running);
        }
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // A test that failed half-way leaves nothing behind.
        if self._dir.is_some() {
            for pid in self.processes() {
                send(pid, nix::sys::signal::Signal::SIGKILL);
            }
        }
    }
}

/// Whether a process was stopped by a signal.
pub fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

pub fn send(pid: i32, signal: nix::sys::signal::Signal) {
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
}

pub async fn until(mut condition: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("waited for half a minute in vain");
}

pub async fn raw(state: &Path) -> sqlx::SqliteConnection {
    use sqlx::ConnectOptions;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(state.join("state.db"));
    options.busy_timeout(Duration::from_secs(10)).connect().await.unwrap()
}

/// State and failure message of each stage.
pub fn states(outcome: &RunOutcome) -> Vec<StageState> {
    outcome.stages.iter().map(|s| s.state).collect()
}

fn make_plan(stages: &Stages) -> Plan {
    let mut planned: Vec<PlannedStage> = Vec::new();
    for (name, deps, script) in stages {
        let find = |name: &str| planned.iter().find(|p| p.name == name).unwrap();
        let mut parts = BTreeMap::from([("config.salt".to_owned(), script.salt.clone())]);
        parts.insert("name".into(), (*name).into());
        parts.extend(deps.iter().map(|d| (format!("input.{d}"), find(d).fingerprint.0.clone())));
        let fingerprint = Fingerprint(blake3::hash(format!("{parts:?}").as_bytes()).to_hex().to_string());
        planned.push(PlannedStage {
            name: (*name).into(),
            kind: "ppo".into(),
            config: spec::StageConfig::Report(Default::default()),
            lora: Default::default(),
            base_model: serde_json::to_string(script).unwrap(),
            dtype: spec::Dtype::F32,
            device: spec::Device::Cpu,
            seed: 0,
            max_retries: 0,
            timeout: 0.0,
            memory: 0,
            deps: deps.iter().map(|d| (*d).into()).collect(),
            fingerprint,
            parts: parts.into(),
        });
    }
    let executor = spec::Executor { retry_delay: 0.01, min_free_disk: 0, ..Default::default() };
    Plan { name: "p".into(), executor, stages: planned, spec_hash: "h".into(), is_part: false }
}
