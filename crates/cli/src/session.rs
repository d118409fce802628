//! A pipeline with its plan and its state folder: what `run`, `resume`, `plan` and `explain` start from.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use engine::{Engine, Hasher, Options};
use plan::{Decision, FileHasher, Plan};
use spec::Pipeline;
use store::{Store, StoreError};

use crate::args::{Changes, Global, Selected};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::{load, preflight};

/// What a command works on.
pub struct Session {
    pub store: Store,
    pub engine: Engine,
    pub pipeline: Pipeline,
    pub plan: Plan,
    /// The pipeline file as it was named.
    pub source: String,
    /// Stages that run although their results are there.
    pub forced: BTreeSet<String>,
    only: Vec<String>,
    /// Stands in for a state folder that cannot be made.
    _empty: Option<tempfile::TempDir>,
}

impl Session {
    /// Reads and checks a pipeline file, opens (and if needed makes) the state folder, and plans.
    pub async fn open(
        file: &Path,
        changes: &Changes,
        selected: &Selected,
        global: &Global,
    ) -> Result<Self, Failure> {
        let pipeline = load::pipeline(file, changes)?;
        preflight::check(&pipeline)?;
        let store = Store::open(&global.state_dir, &command_line()).await?;
        Self::plan(file, pipeline, selected, store, true).await
    }

    /// As [`Session::open`], to look only: a state folder that cannot be written to is read, and one that is
    /// not there and cannot be made is as good as an empty one.
    pub async fn look(
        file: &Path,
        changes: &Changes,
        selected: &Selected,
        global: &Global,
    ) -> Result<Self, Failure> {
        if store::network::is_writable(&global.state_dir) {
            return Self::open(file, changes, selected, global).await;
        }
        let pipeline = load::pipeline(file, changes)?;
        preflight::check(&pipeline)?;
        match Store::open_existing(&global.state_dir).await {
            Err(StoreError::NoState(_)) => {
                let empty = tempfile::tempdir().map_err(Failure::io("cannot make a temporary folder"))?;
                let store = Store::open(empty.path(), &command_line()).await?;
                let new = Self::plan(file, pipeline, selected, store, false).await?;
                Ok(Self { _empty: Some(empty), ..new })
            }
            store => Self::plan(file, pipeline, selected, store?, false).await,
        }
    }

    /// `remember`: keep the hashes of what was read.
    async fn plan(
        file: &Path,
        pipeline: Pipeline,
        selected: &Selected,
        store: Store,
        remember: bool,
    ) -> Result<Self, Failure> {
        let mut hasher = Hasher::load(&store).await?;
        let planned = Plan::new(&pipeline, &mut hasher).map_err(|error| located(&pipeline, error));
        if remember {
            hasher.save().await?;
        }
        let engine = Engine::new(store.clone(), options()?);
        let forced = selected.force.iter().chain(&selected.from).cloned().collect();
        let source = file.display().to_string();
        let mut new = Self {
            store,
            engine,
            pipeline,
            plan: planned?,
            source,
            forced,
            only: selected.only.clone(),
            _empty: None,
        };
        let selection = selected.selection();
        for name in selection.names().chain(&selected.force) {
            new.stage(name)?;
        }
        new.plan = new.plan.select(&selection);
        if let Some(name) = selected.force.iter().find(|name| new.plan.stage(name).is_none()) {
            let help = "leave it out of --force, or widen --only, --from and --until";
            return Err(Failure::usage(format!("`{name}` is forced, but not among the stages to run"), help));
        }
        Ok(new)
    }

    /// What would run, and why. With `--only`, nothing else may have to.
    pub async fn decide(&self) -> Result<Vec<Decision>, Failure> {
        let decisions = engine::decisions(&self.store, &self.plan, &self.forced).await?;
        let other = decisions.iter().find(|decision| decision.runs() && !self.only.contains(&decision.stage));
        match other {
            Some(other) if !self.only.is_empty() => {
                let names = self.only.join("`, `");
                let message =
                    format!("`{names}` needs `{}`, which has not been made as it is now", other.stage);
                Err(Failure::usage(message, format!("run with --until {} first, or instead", other.stage)))
            }
            _ => Ok(decisions),
        }
    }

    /// The stage that a person named.
    pub fn stage(&self, name: &str) -> Result<&plan::PlannedStage, Failure> {
        self.plan.stage(name).ok_or_else(|| {
            let names = || self.plan.stages.iter().map(|stage| stage.name.as_str());
            let help = match spec::nearest(name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the stages are {}", names().collect::<Vec<_>>().join(", ")),
            };
            Failure::usage(format!("the pipeline has no stage `{name}`"), help)
        })
    }

    /// A plan for looking at its graph: files are not read, so fingerprints mean nothing.
    pub fn sketch(pipeline: &Pipeline) -> Result<Plan, Failure> {
        Ok(Plan::new(pipeline, &mut Unread)?)
    }
}

struct Unread;

impl FileHasher for Unread {
    fn hash(&mut self, _: &Path) -> io::Result<String> {
        Ok(String::new())
    }

    fn list(&mut self, _: &Path) -> io::Result<Option<Vec<PathBuf>>> {
        Ok(None)
    }
}

/// An unreadable file, at the key that names it.
fn located(pipeline: &Pipeline, error: plan::PlanError) -> Failure {
    match &error {
        plan::PlanError::Unreadable { key, .. } => {
            let help = "its content is part of the stage's fingerprint";
            let mistake = pipeline.mistake(key, error.code(), error.to_string(), help);
            Failure::Outside { mistakes: vec![mistake] }
        }
        _ => error.into(),
    }
}

/// Says so where the state folder lies on a network file system: it works there, but not as well.
pub fn tell_network(store: &Store, printer: &Printer) {
    let root = store.layout().root();
    if let Some(kind) = store::network::network_file_system(root) {
        printer.note(format_args!(
            "{} lies on {kind}: its database works without a write-ahead log there, more slowly; \
             --state-dir names a folder on a local disk",
            root.display()
        ));
    }
}

/// How this program starts its own workers.
pub fn options() -> Result<Options, Failure> {
    let program = std::env::current_exe().map_err(Failure::io("cannot find this program"))?;
    let cwd = std::env::current_dir().map_err(Failure::io("cannot find the current directory"))?;
    Ok(Options {
        worker: vec![program.into(), "worker".into()],
        cwd,
        command: command_line(),
        accelerators: cuda::devices(),
        executor: None,
    })
}

/// What the user typed, for others that find a run taken.
pub fn command_line() -> String {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let name =
        Path::new(&program).file_name().map_or(program.clone(), |name| name.to_string_lossy().into_owned());
    std::iter::once(name).chain(words).collect::<Vec<_>>().join(" ")
}
