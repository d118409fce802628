//! What the engine itself costs, without any training: `cargo bench -p engine`.
//!
//! Stages do nothing but write a small file and its manifest, so that everything measured is planning,
//! recording, starting and publishing. Transitions are as durable as always. Numbers and the machine they
//! were measured on are in docs/benchmarks/engine.md.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::executor::{Boxed, Cancel, Ending, Executor, Handle, Observation, SubmitError, Task};
use engine::protocol::{self, Manifest, PROTOCOL, Request, Usage, file};
use engine::{Engine, Hasher, Options};
use plan::Plan;
use store::Store;
use store::record::StageState;
use tokio::sync::mpsc;

/// Stages per chain of [`pipeline_text`].
const CHAIN: usize = 4;

fn main() {
    if std::env::var_os(protocol::env::ATTEMPT).is_some() {
        work(Path::new(&std::env::args_os().next_back().unwrap_or_default()));
        return;
    }
    if let Some(folder) = std::env::var_os(DRIVER) {
        let stages = std::env::args().next_back().and_then(|word| word.parse().ok()).unwrap_or(0);
        tokio::runtime::Runtime::new().expect("a runtime").block_on(drive(folder.into(), stages));
        return;
    }
    // `cargo bench -p engine -- status` measures that alone.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wants = |what: &str| wanted.is_empty() || wanted.iter().any(|word| word == what);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        if wants("plan") {
            planning();
        }
        if wants("unchanged") {
            unchanged(1_000).await;
            unchanged(10_000).await;
        }
        if wants("inside") {
            throughput("in-process stages", 4_000, 128, true).await;
        }
        if wants("children") {
            throughput("child-process stages", 1_200, 32, false).await;
        }
        if wants("resume") {
            first_stage_after_a_kill(10_000).await;
        }
        if wants("status") {
            status(1_000_000).await;
        }
    });
    for folder in USED.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let _ = fs::remove_dir_all(folder);
    }
}

fn report(what: &str, value: impl std::fmt::Display) {
    println!("{what:<58} {value}");
}

fn seconds(time: Duration) -> String {
    format!("{:>9.1} ms", time.as_secs_f64() * 1000.0)
}

/// Chains of four stages, as a campaign over many settings has them.
fn pipeline_text(stages: usize) -> String {
    let mut text = String::from("[pipeline]\nname = \"bench\"\n\n[executor]\nmin_free_disk = 0\n");
    for i in 0..stages.div_ceil(CHAIN) {
        let _ = write!(
            text,
            "\n[stages.base{i}]\nkind = \"pretrain\"\nformat = \"synthetic-qa\"\nquestions = {questions}\n\
             vocab_size = 640\nhidden_size = 128\nlearning_rate = 3e-3\nmax_steps = 400\n\
             \n[stages.data{i}]\nkind = \"prepare\"\nmodel = \"base{i}\"\nformat = \"synthetic-qa\"\n\
             questions = {questions}\neval = 300\n\
             \n[stages.sft{i}]\nkind = \"hydra-sft\"\nmodel = \"base{i}\"\ndata = \"data{i}\"\nlearning_rate = 1e-3\n\
             \n[stages.reward{i}]\nkind = \"reward-eval\"\nmodel = \"sft{i}\"\ndata = \"data{i}\"\n",
            questions = 1_000 + i,
        );
    }
    text
}

struct Unread;

impl plan::FileHasher for Unread {
    fn hash(&mut self, _: &Path) -> std::io::Result<String> {
        Ok(String::new())
    }

    fn list(&mut self, _: &Path) -> std::io::Result<Option<Vec<PathBuf>>> {
        Ok(None)
    }
}

fn make_plan(text: &str) -> Plan {
    let pipeline = spec::parse("bench.toml", text, &[]).unwrap_or_else(|e| panic!("{e}"));
    Plan::new(&pipeline, &mut Unread).unwrap_or_else(|e| panic!("{e}"))
}

fn planning() {
    for stages in [1_000, 10_000, 100_000] {
        let text = pipeline_text(stages);
        let start = Instant::now();
        let pipeline = spec::parse("bench.toml", &text, &[]).unwrap_or_else(|e| panic!("{e}"));
        let parsed = start.elapsed();
        let plan = Plan::new(&pipeline, &mut Unread).unwrap_or_else(|e| panic!("{e}"));
        let all = start.elapsed();
        assert_eq!(plan.stages.len(), stages);
        let peak = store::process::peak_rss_bytes(std::process::id() as i32).unwrap_or(0);
        report(
            &format!("plan {stages} stages (of it reading the file)"),
            format!("{} ({}), peak {} MB", seconds(all), seconds(parsed).trim(), peak / 1_000_000),
        );
    }
}

/// A project folder with a plan.
struct Project {
    folder: PathBuf,
    plan: Plan,
    text: String,
}

/// Folders to remove in the end. Not before: ext4 is slow to make files for minutes after many were deleted.
static USED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

impl Drop for Project {
    fn drop(&mut self) {
        USED.lock().unwrap_or_else(PoisonError::into_inner).push(self.folder.clone());
    }
}

impl Project {
    fn new(stages: usize) -> Self {
        let text = pipeline_text(stages);
        let folder = tempfile::tempdir().expect("a folder").keep();
        Self { folder, plan: make_plan(&text), text }
    }

    fn state(&self) -> PathBuf {
        self.folder.join(".pipeline")
    }

    async fn engine(&self, parallel: usize, inside: bool) -> Engine {
        let store = Store::open(&self.state(), "bench").await.unwrap_or_else(|e| panic!("{e}"));
        let worker: Vec<OsString> = vec![std::env::current_exe().expect("this program").into()];
        let mut options = Options::new(worker, self.folder.clone(), "bench".into());
        let executor = &self.plan.executor;
        options.executor =
            Some(spec::Executor { max_parallel: parallel, cpus: parallel, ..executor.clone() });
        let engine = Engine::new(store, options);
        if inside { engine.with_executor(Arc::new(Inside)) } else { engine }
    }

    async fn run(&self, parallel: usize, inside: bool) {
        let engine = self.engine(parallel, inside).await;
        let (updates, mut received) = mpsc::unbounded_channel();
        tokio::spawn(async move { while received.recv().await.is_some() {} });
        let outcome = engine.run(&self.plan, "bench.toml", &BTreeSet::new(), updates).await;
        let outcome = outcome.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(outcome.exit_code(), 0, "{:?}", outcome.stages.iter().find(|s| s.failure.is_some()));
    }
}

/// From opening the state folder and the file to "nothing to run".
async fn unchanged(stages: usize) {
    let project = Project::new(stages);
    project.run(64, true).await;
    let start = Instant::now();
    let store = Store::open(&project.state(), "bench").await.unwrap_or_else(|e| panic!("{e}"));
    let pipeline = spec::parse("bench.toml", &project.text, &[]).unwrap_or_else(|e| panic!("{e}"));
    let mut hasher = Hasher::load(&store).await.unwrap_or_else(|e| panic!("{e}"));
    let plan = Plan::new(&pipeline, &mut hasher).unwrap_or_else(|e| panic!("{e}"));
    let decisions =
        engine::decisions(&store, &plan, &BTreeSet::new()).await.unwrap_or_else(|e| panic!("{e}"));
    assert!(decisions.iter().all(|decision| !decision.runs()));
    report(&format!("no-op rerun of {stages} stages"), seconds(start.elapsed()));
}

async fn throughput(what: &str, stages: usize, parallel: usize, inside: bool) {
    let project = Project::new(stages);
    let start = Instant::now();
    project.run(parallel, inside).await;
    let time = start.elapsed();
    let rate = stages as f64 / time.as_secs_f64();
    report(&format!("{what}, {stages} with {parallel} at once"), format!("{rate:>9.0} /s"));
}

/// Names the project folder of a driver that is to be killed.
const DRIVER: &str = "ENGINE_BENCH_DRIVER";

/// A run whose driver was killed in its midst is taken up; until its first new stage is done.
async fn first_stage_after_a_kill(stages: usize) {
    let project = Project::new(stages);
    let program = std::env::current_exe().expect("this program");
    let mut driver = std::process::Command::new(program)
        .env(DRIVER, &project.folder)
        .arg(stages.to_string())
        .spawn()
        .expect("a driver");
    let artifacts = project.state().join("artifacts");
    while fs::read_dir(&artifacts).map_or(0, Iterator::count) < 5 {
        std::thread::sleep(Duration::from_millis(5));
    }
    driver.kill().expect("killed");
    driver.wait().expect("gone");

    let start = Instant::now();
    let engine = project.engine(1, true).await;
    let run_id = engine.store().runs(1).await.unwrap_or_else(|e| panic!("{e}")).remove(0).id;
    let control = engine.control();
    let (updates, mut received) = mpsc::unbounded_channel();
    let first = tokio::spawn(async move {
        let mut first = None;
        while let Some(update) = received.recv().await {
            if matches!(&update, engine::Update::StageEnded(stage) if stage.state == StageState::Succeeded)
                && first.is_none()
            {
                first = Some(start.elapsed());
                control.raise(engine::Level::Stop, engine::Cause::Interrupt);
            }
        }
        first
    });
    engine.resume(&run_id, &Default::default(), updates).await.unwrap_or_else(|e| panic!("{e}"));
    let first = first.await.ok().flatten().expect("a stage ended");
    report(&format!("first new stage of a killed run of {stages}"), seconds(first));
}

/// What [`first_stage_after_a_kill`] kills.
async fn drive(folder: PathBuf, stages: usize) {
    let text = pipeline_text(stages);
    let project = Project { plan: make_plan(&text), text, folder };
    project.run(1, true).await;
}

/// The newest run out of many, in a database with that many stage rows.
async fn status(rows: usize) {
    let project = Project::new(40);
    project.run(16, true).await;
    let store = Store::open(&project.state(), "bench").await.unwrap_or_else(|e| panic!("{e}"));
    drop(store);
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(project.state().join("state.db"));
    let mut raw = sqlx::ConnectOptions::connect(&options).await.expect("the database");
    for statement in [
        format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})
             INSERT INTO runs SELECT 'old-' || i, 'p', 'p.toml', 'h', '{{}}', x'2f', 'c', 'succeeded', i, i, NULL FROM n",
            rows / 100
        ),
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
         INSERT INTO stages SELECT runs.id, n.i, 'stage' || n.i, 'sft', 'f', 'succeeded', '[]', 0, '', 1, 2
         FROM runs, n WHERE runs.id LIKE 'old-%'"
            .to_owned(),
    ] {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut raw).await.expect("rows");
    }
    let start = Instant::now();
    let store = Store::open_existing(&project.state()).await.unwrap_or_else(|e| panic!("{e}"));
    let view = engine::view::run_view(&store, None).await.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(view.map(|view| view.stages.len()), Some(40));
    report(&format!("status in a database of {rows} stage rows"), seconds(start.elapsed()));
}

/// What a worker does at least: a result with its manifest.
fn work(folder: &Path) {
    let text = fs::read(folder.join(file::REQUEST)).expect("a request");
    let request: Request = serde_json::from_slice(&text).expect("a request");
    let out = folder.join(file::OUT);
    fs::create_dir_all(&out).expect("a folder");
    fs::write(out.join("result.txt"), request.stage.fingerprint.as_str()).expect("a file");
    let manifest = Manifest {
        protocol: PROTOCOL,
        nonce: request.nonce,
        fingerprint: request.stage.fingerprint.0,
        files: store::files::inventory(&out).unwrap_or_else(|e| panic!("{e}")),
        summary: serde_json::Value::Null,
        usage: Usage::default(),
    };
    let manifest = serde_json::to_vec(&manifest).expect("JSON");
    store::files::write_whole(&folder.join(file::MANIFEST), &manifest).unwrap_or_else(|e| panic!("{e}"));
}

/// Runs stages in this process: what is left is the engine.
struct Inside;

impl Executor for Inside {
    fn name(&self) -> &'static str {
        "inside"
    }

    fn submit<'a>(&'a self, task: &'a Task) -> Boxed<'a, Result<Handle, SubmitError>> {
        let folder = task.folder.clone();
        Box::pin(async move {
            tokio::task::spawn_blocking(move || work(&folder)).await.expect("it worked");
            Ok("{}".to_owned())
        })
    }

    fn observe<'a>(&'a self, _: &'a Task, _: &'a Handle) -> Boxed<'a, Observation> {
        Box::pin(async { Observation::Ended(Ending::Exit(protocol::exit::FINISHED)) })
    }

    fn changed<'a>(&'a self, _: &'a Handle) -> Boxed<'a, ()> {
        Box::pin(async {})
    }

    fn cancel<'a>(&'a self, _: &'a Task, _: &'a Handle, _: Cancel) -> Boxed<'a, ()> {
        Box::pin(async {})
    }

    fn clean_up<'a>(&'a self, _: &'a Task, _: &'a Handle) -> Boxed<'a, ()> {
        Box::pin(async {})
    }

    fn find<'a>(&'a self, _: &'a Task) -> Boxed<'a, Option<Handle>> {
        Box::pin(async { None })
    }
}
