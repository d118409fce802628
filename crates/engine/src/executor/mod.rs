//! Where workers run. An executor starts, observes and cancels; it decides nothing.

mod local;
mod slurm;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

pub use local::Local;
pub use slurm::Slurm;

/// A boxed future, so that executors can be chosen at run time.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What an executor finds a process or job by again; its own JSON, stored with the attempt.
pub type Handle = String;

/// What is to be started.
#[derive(Debug, Clone)]
pub struct Task {
    pub run_id: String,
    pub stage: String,
    /// 1, 2, … within the stage of the run.
    pub number: u32,
    pub attempt_id: String,
    /// Known to this attempt only.
    pub nonce: String,
    /// The attempt's folder, with the request in it.
    pub folder: PathBuf,
}

/// What is known of a process or job. Only [`Observation::Ended`] ends an attempt: unknown is not dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    Pending,
    Running,
    Ended(Ending),
    /// It could not be found out now; ask again.
    Unknown,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Exit(i32),
    Signal(i32),
    /// It is not there any more, and nobody was there to see how it ended.
    Gone,
    /// A scheduler ended its job.
    Job(JobEnd),
}

/// Why a scheduler ended a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// Its time was up.
    TimeLimit,
    /// Another job needed its place, or its node failed: no fault of the job.
    Displaced,
    OutOfMemory,
    /// By someone, and not by us unless we are stopping.
    Cancelled,
    /// Without a word from the worker.
    Failed,
}

/// How to stop an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cancel {
    /// Ask for a checkpoint and an end.
    Checkpoint,
    Terminate,
    Kill,
}

/// A worker could not be started.
#[derive(Debug, Error)]
pub enum SubmitError {
    #[error("cannot start {program}: {source}")]
    Start { program: String, source: std::io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// A scheduler answered that it will not take the job.
    #[error("the scheduler refuses the job: {message}")]
    Refused { message: String },
    /// A scheduler did not take the job; why is not known.
    #[error("the job could not be submitted: {message}")]
    Failed { message: String },
}

impl SubmitError {
    /// Whether trying again can help.
    pub fn is_transient(&self) -> bool {
        use std::io::ErrorKind::{InvalidInput, NotFound, PermissionDenied};
        match self {
            Self::Start { source, .. } => {
                !matches!(source.kind(), NotFound | PermissionDenied | InvalidInput)
            }
            Self::Write { .. } | Self::Failed { .. } => true,
            Self::Refused { .. } => false,
        }
    }

    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::Start { .. } => "is it installed, and has it not been moved since the run began?",
            Self::Write { .. } => "is the disk full, or the state folder read-only?",
            Self::Refused { .. } => "change what [executor] asks for",
            Self::Failed { .. } => "the message is the scheduler's own",
        }
    }
}

/// The order of writes is the engine's: the attempt is recorded, then submitted, then its handle is
/// recorded. After a crash in between, [`Executor::find`] tells what became of it.
pub trait Executor: Send + Sync {
    /// As stored with an attempt.
    fn name(&self) -> &'static str;

    /// Starts the worker for a task.
    fn submit<'a>(&'a self, task: &'a Task) -> Boxed<'a, Result<Handle, SubmitError>>;

    /// What is known of it now.
    fn observe<'a>(&'a self, task: &'a Task, handle: &'a Handle) -> Boxed<'a, Observation>;

    /// Returns when it is worth observing again, at the latest after a short while.
    fn changed<'a>(&'a self, handle: &'a Handle) -> Boxed<'a, ()>;

    /// Signals every process of the task; that it has ended is for [`Executor::observe`] to say.
    fn cancel<'a>(&'a self, task: &'a Task, handle: &'a Handle, how: Cancel) -> Boxed<'a, ()>;

    /// Ends what the worker may have left running, and returns once it is gone.
    fn clean_up<'a>(&'a self, task: &'a Task, handle: &'a Handle) -> Boxed<'a, ()>;

    /// The process or job of a task whose handle was never recorded.
    fn find<'a>(&'a self, task: &'a Task) -> Boxed<'a, Option<Handle>>;

    /// A submission was broken off: whatever may have come of it must not begin.
    fn abandon<'a>(&'a self, _task: &'a Task) -> Boxed<'a, ()> {
        Box::pin(async {})
    }

    /// Where its process or job is, for people, as far as that is not the machine they are at.
    fn whereabouts(&self, _task: &Task, _handle: &Handle) -> Option<String> {
        None
    }

    /// How often it is worth looking for new events.
    fn tick(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// Highest resident set so far, where it can be seen.
    fn peak_rss_bytes(&self, _handle: &Handle) -> Option<u64> {
        None
    }
}

/// The executors of a run: each stage has one, and an attempt stays with the one that started it.
pub(crate) struct Executors {
    config: spec::Executor,
    local: Arc<dyn Executor>,
    slurm: Slurm,
}

impl Executors {
    pub fn new(config: spec::Executor, local: Arc<dyn Executor>, slurm: Slurm) -> Self {
        Self { config, local, slurm }
    }

    pub fn kind(&self, stage: &str) -> spec::ExecutorKind {
        self.config.place(stage).kind
    }

    /// Where the next attempt at a stage runs.
    pub fn of_stage(&self, stage: &str) -> &dyn Executor {
        match self.kind(stage) {
            spec::ExecutorKind::Local => &*self.local,
            spec::ExecutorKind::Slurm => &self.slurm,
        }
    }

    /// The one with this name.
    pub fn named(&self, name: &str) -> &dyn Executor {
        if name == self.slurm.name() { &self.slurm } else { &*self.local }
    }
}
