//! Workers as Slurm jobs. Slurm is believed where it answers clearly; what it does not know, or answers
//! half, changes nothing. Before Slurm come the files that a job leaves in its attempt's folder: they say
//! which job works on it, that its worker has ended, and how.

mod cancel;
mod commands;
mod queue;
mod script;
mod states;
mod submit;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plan::Plan;
use spec::stage::Provider;
use spec::{Place, StageConfig};

use self::cancel::Canceller;
use self::commands::Commands;
use self::queue::{Job, Queue};
use self::script::{EXIT, HEARTBEAT, Mark};
use self::states::{End, State};
use super::{Boxed, Cancel, Ending, Executor, Handle, JobEnd, Observation, SubmitError, Task};
use crate::protocol::exit;
use crate::update::Updates;

/// How often an attempt's own files are looked at, at most: they are on a network file system.
const TICK: Duration = Duration::from_secs(1);

/// Submits workers to Slurm.
pub struct Slurm {
    config: spec::Executor,
    worker: Vec<OsString>,
    cwd: PathBuf,
    /// By stage: variables that hold keys.
    secrets: BTreeMap<String, String>,
    commands: Arc<Commands>,
    queue: Arc<Queue>,
    canceller: Arc<Canceller>,
    /// What a file said, and since when: clocks of nodes are not compared.
    signs: Mutex<BTreeMap<PathBuf, (String, Instant)>>,
    /// Nodes that failed under a job of this run.
    failed_nodes: Mutex<BTreeSet<String>>,
}

impl Slurm {
    /// `worker`: program and arguments, the attempt's folder is appended. `cwd`: where jobs run.
    /// `updates`: hears what the user should know.
    pub fn new(
        config: spec::Executor,
        worker: Vec<OsString>,
        cwd: PathBuf,
        plan: &Plan,
        updates: Updates,
    ) -> Self {
        let commands = Arc::new(Commands::new(cwd.clone(), &config));
        let queue = Arc::new(Queue::new(Arc::clone(&commands), &config, updates));
        let canceller = Arc::new(Canceller::new(Arc::clone(&commands)));
        let key = |config: &StageConfig| match config {
            StageConfig::Judge(judge) if judge.provider == Provider::Openai => judge.api_key_env.clone(),
            _ => String::new(),
        };
        let secrets = plan.stages.iter().map(|stage| (stage.name.clone(), key(&stage.config))).collect();
        let (signs, failed_nodes) = (Mutex::default(), Mutex::default());
        Self { config, worker, cwd, secrets, commands, queue, canceller, signs, failed_nodes }
    }

    /// Variables that a stage's job gets from this process, as far as they are there.
    fn variables(&self, stage: &str) -> Vec<String> {
        let mut names = self.config.place(stage).export.clone();
        names.extend(self.secrets.get(stage).cloned());
        names.sort();
        names.dedup();
        names.retain(|name| !name.is_empty() && std::env::var_os(name).is_some());
        names
    }

    fn shortest(&self) -> Duration {
        Duration::try_from_secs_f64(self.config.poll_interval).unwrap_or_default()
    }

    fn search_time(&self) -> Duration {
        Duration::try_from_secs_f64(self.config.search_time).unwrap_or_default()
    }

    /// What a stage's next job asks for, and whether that leaves out nodes that have just failed.
    fn place(&self, stage: &str) -> (Place, bool) {
        let mut place = self.config.place(stage).clone();
        let failed = self.failed_nodes();
        for node in failed.iter() {
            let comma = if place.exclude.is_empty() { "" } else { "," };
            place.exclude += &format!("{comma}{node}");
        }
        (place, !failed.is_empty())
    }

    fn failed_nodes(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.failed_nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The job of an attempt: the one that claimed it, which after a submission in doubt may be another than
    /// the one we know of.
    fn job(&self, task: &Task, handle: &Handle) -> Option<Job> {
        let job: Option<Job> = serde_json::from_str(handle).ok();
        match submit::marked(task) {
            Some(marked) if job.as_ref().is_none_or(|job| job.id != marked.id) => {
                // Without the time of its submission: that is part of what it is known by.
                Some(Job { submitted: job.map_or(0, |job| job.submitted), ..marked })
            }
            _ => job,
        }
    }

    /// How long a file of the attempt has said the same, as far as we have looked.
    fn still(&self, task: &Task, name: &str) -> Duration {
        let path = task.folder.join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let mut signs = self.signs.lock().unwrap_or_else(PoisonError::into_inner);
        let (said, since) = signs.entry(path).or_insert_with(|| (text.clone(), Instant::now()));
        if *said != text {
            (*said, *since) = (text, Instant::now());
        }
        since.elapsed()
    }

    fn look(&self, task: &Task, job: &Job) -> Observation {
        let mark = Mark::read(task, EXIT);
        let own = [exit::FINISHED, exit::FAILED, exit::GATE, exit::INTERRUPTED];
        if let Some(mark) = mark.as_ref().filter(|mark| own.contains(&mark.code)) {
            return Observation::Ended(Ending::Exit(mark.code));
        }
        let seen = self.queue.seen(job);
        let waited = seen.since.elapsed() >= self.search_time();
        if let Some(mark) = mark {
            // It was ended from outside; Slurm knows in a moment why.
            return match seen.state {
                Some(State::Ended(End::Other(end))) if end != JobEnd::Failed => {
                    Observation::Ended(Ending::Job(end))
                }
                Some(State::Ended(_)) => Observation::Ended(shell_ending(mark.code)),
                _ if seen.unknown > 0 || self.still(task, EXIT) >= self.search_time() => {
                    Observation::Ended(shell_ending(mark.code))
                }
                _ => {
                    self.queue.hurry();
                    Observation::Running
                }
            };
        }
        match seen.state {
            // Nobody knows it any more, twice, and it gives no sign of life.
            _ if seen.unknown >= 2 && self.still(task, HEARTBEAT) >= self.search_time() => {
                Observation::Ended(Ending::Gone)
            }
            Some(State::Pending) if seen.answered => Observation::Pending,
            Some(State::Running) if seen.answered => Observation::Running,
            // On a network file system its files may appear later than its end.
            Some(State::Ended(End::Completed)) if waited => Observation::Ended(Ending::Exit(0)),
            Some(State::Ended(End::Other(JobEnd::Failed))) if waited => {
                Observation::Ended(Ending::Job(JobEnd::Failed))
            }
            Some(State::Ended(End::Completed | End::Other(JobEnd::Failed))) => Observation::Running,
            // Slurm may be about to put it back into the queue.
            Some(State::Ended(end)) if end.may_return() && seen.times < 2 => {
                self.queue.hurry();
                Observation::Running
            }
            Some(State::Ended(End::Other(end))) => {
                if seen.node_failed && !seen.node.is_empty() {
                    self.failed_nodes().insert(seen.node);
                }
                Observation::Ended(Ending::Job(end))
            }
            Some(State::Pending | State::Running) | None => Observation::Unknown,
        }
    }
}

/// 128 and more are signals.
fn shell_ending(code: i32) -> Ending {
    if code > 128 { Ending::Signal(code - 128) } else { Ending::Exit(code) }
}

impl Executor for Slurm {
    fn name(&self) -> &'static str {
        "slurm"
    }

    fn submit<'a>(&'a self, task: &'a Task) -> Boxed<'a, Result<Handle, SubmitError>> {
        Box::pin(async move {
            let job = self.enqueue(task).await?;
            self.queue.hurry();
            Ok(to_handle(&job))
        })
    }

    fn observe<'a>(&'a self, task: &'a Task, handle: &'a Handle) -> Boxed<'a, Observation> {
        let seen =
            self.job(task, handle).map_or(Observation::Ended(Ending::Gone), |job| self.look(task, &job));
        Box::pin(async move { seen })
    }

    fn changed<'a>(&'a self, _: &'a Handle) -> Boxed<'a, ()> {
        Box::pin(tokio::time::sleep(self.tick()))
    }

    fn tick(&self) -> Duration {
        self.shortest().min(TICK)
    }

    fn whereabouts(&self, task: &Task, handle: &Handle) -> Option<String> {
        let job = self.job(task, handle)?;
        let seen = self.queue.seen(&job);
        match seen.state {
            _ if !seen.answered => Some(format!("job {}, of which Slurm says nothing now", job.id)),
            Some(State::Pending) if ["", "None"].contains(&seen.reason.as_str()) => {
                Some(format!("job {} waits", job.id))
            }
            Some(State::Pending) => Some(format!("job {} waits: {}", job.id, seen.reason)),
            Some(State::Running) => Some(format!("job {} on {}", job.id, seen.node)),
            Some(State::Ended(_)) | None => None,
        }
    }

    fn cancel<'a>(&'a self, task: &'a Task, handle: &'a Handle, how: Cancel) -> Boxed<'a, ()> {
        if let Some(job) = self.job(task, handle) {
            self.canceller.send(job, how);
            self.queue.hurry();
        }
        Box::pin(async {})
    }

    fn clean_up<'a>(&'a self, task: &'a Task, handle: &'a Handle) -> Boxed<'a, ()> {
        Box::pin(async move {
            if let Some(job) = self.job(task, handle) {
                self.queue.forget(&job);
                // A second job of a submission in doubt, which has nothing to do.
                let other = serde_json::from_str::<Job>(handle).ok().filter(|other| other.id != job.id);
                if let Some(other) = other {
                    self.queue.forget(&other);
                    self.canceller.send(other, Cancel::Terminate);
                }
            }
            self.signs
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .retain(|path, _| !path.starts_with(&task.folder));
            self.close(task);
        })
    }

    fn find<'a>(&'a self, task: &'a Task) -> Boxed<'a, Option<Handle>> {
        Box::pin(async move { self.look_up(task).await.map(|job| to_handle(&job)) })
    }

    fn abandon<'a>(&'a self, task: &'a Task) -> Boxed<'a, ()> {
        Box::pin(async move {
            self.close(task);
            self.canceller.by_name(&script::job_name(task)).await;
        })
    }
}

fn to_handle(job: &Job) -> Handle {
    serde_json::to_string(job).unwrap_or_default()
}
