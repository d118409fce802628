//! Where workers run. An executor starts, observes and cancels; it decides nothing.

mod local;

use std::path::PathBuf;
use std::pin::Pin;

use thiserror::Error;

pub use local::Local;

/// A boxed future, so that executors can be chosen at run time.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What an executor finds a process or job by again; its own JSON, stored with the attempt.
pub type Handle = String;

/// What is to be started.
#[derive(Debug, Clone)]
pub struct Task {
    pub run_id: String,
    pub attempt_id: String,
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
#[error("cannot start {program}: {source}")]
pub struct SubmitError {
    pub program: String,
    pub source: std::io::Error,
}

impl SubmitError {
    /// Whether trying again can help.
    pub fn is_transient(&self) -> bool {
        use std::io::ErrorKind::{InvalidInput, NotFound, PermissionDenied};
        !matches!(self.source.kind(), NotFound | PermissionDenied | InvalidInput)
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

    /// Highest resident set so far, where it can be seen.
    fn peak_rss_bytes(&self, _handle: &Handle) -> Option<u64> {
        None
    }
}
