//! Workers as child processes on this machine, each in a process group of its own: the terminal's Ctrl-C
//! does not reach them, and they outlive a driver that dies.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use store::process;
use tokio::process::Command;
use tokio::sync::watch;

use super::{Boxed, Cancel, Ending, Executor, Handle, Observation, SubmitError, Task};
use crate::protocol::{env, file};

/// How often a process that is not our child is looked at.
const POLL: Duration = Duration::from_millis(50);
/// What a worker left running has this long after TERM.
const GRACE: Duration = Duration::from_secs(2);
/// Asks a worker to die at a fault point, as [`store::fault::VARIABLE`] asks the driver.
const WORKER_FAULT: &str = "PIPELINE_WORKER_FAULT_POINT";

/// A pid is not enough: it is reused, and means nothing after a boot or in another container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LocalHandle {
    pid: i32,
    started: u64,
    boot: String,
    pid_ns: String,
}

type Status = watch::Receiver<Option<ExitStatus>>;

/// Starts workers on this machine.
pub struct Local {
    worker: Vec<OsString>,
    cwd: PathBuf,
    children: Mutex<HashMap<i32, Status>>,
}

impl Local {
    /// `worker`: program and arguments, the attempt's folder is appended. `cwd`: where it runs.
    pub fn new(worker: Vec<OsString>, cwd: PathBuf) -> Self {
        Self { worker, cwd, children: Mutex::default() }
    }

    fn spawn(&self, task: &Task) -> Result<Handle, SubmitError> {
        let program = self.worker.first().cloned().unwrap_or_default();
        let failed = |source| SubmitError::Start { program: program.to_string_lossy().into_owned(), source };
        let log = open_log(task).map_err(failed)?;
        let mut command = Command::new(&program);
        command
            .args(self.worker.iter().skip(1))
            .arg(&task.folder)
            .current_dir(&self.cwd)
            .env(env::RUN_ID, &task.run_id)
            .env(env::ATTEMPT, &task.attempt_id)
            .env_remove(store::fault::VARIABLE)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed)?)
            .stderr(log)
            .process_group(0);
        if let Some(point) = std::env::var_os(WORKER_FAULT) {
            command.env(store::fault::VARIABLE, point);
        }
        let mut child = command.spawn().map_err(failed)?;
        let pid = child.id().map_or(0, |id| id as i32);
        let handle = LocalHandle {
            pid,
            started: process::start_time(pid).unwrap_or(0),
            boot: process::boot_id(),
            pid_ns: process::pid_namespace(),
        };
        let (sender, receiver) = watch::channel(None);
        self.children().insert(pid, receiver);
        tokio::spawn(async move { sender.send_replace(child.wait().await.ok()) });
        serde_json::to_string(&handle).map_err(|e| failed(e.into()))
    }

    fn children(&self) -> std::sync::MutexGuard<'_, HashMap<i32, Status>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The status of our own child: `None` if it is not ours, `Some(None)` while it runs.
    fn own(&self, handle: &LocalHandle) -> Option<Option<ExitStatus>> {
        let children = self.children();
        let status = children.get(&handle.pid)?;
        let now = *status.borrow();
        // The waiting task is gone without a status: fall back to looking.
        (now.is_some() || status.has_changed().is_ok()).then_some(now)
    }

    fn look(&self, task: &Task, handle: &LocalHandle) -> Observation {
        if let Some(status) = self.own(handle) {
            return match status {
                None => Observation::Running,
                Some(status) => Observation::Ended(ending(status)),
            };
        }
        if is_here(handle) {
            let alive = process::start_time(handle.pid).is_some_and(|s| s == handle.started);
            return if alive { Observation::Running } else { Observation::Ended(Ending::Gone) };
        }
        if handle.boot != process::boot_id() {
            return Observation::Ended(Ending::Gone);
        }
        // Another container on the same kernel. The log's lock lives as long as any process that writes to it.
        match File::open(task.folder.join(file::LOG)).map(|log| log.try_lock()) {
            Ok(Err(_)) => Observation::Running,
            Ok(Ok(())) | Err(_) => Observation::Ended(Ending::Gone),
        }
    }
}

/// Whether the handle's pid means something here and now.
fn is_here(handle: &LocalHandle) -> bool {
    handle.boot == process::boot_id() && handle.pid_ns == process::pid_namespace()
}

fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exit(code),
        (None, Some(signal)) => Ending::Signal(signal),
        (None, None) => Ending::Gone,
    }
}

/// Opens the log, locked: the lock belongs to the open file, which the worker and its children inherit.
fn open_log(task: &Task) -> std::io::Result<File> {
    let log = File::options().create(true).append(true).open(task.folder.join(file::LOG))?;
    let _ = log.try_lock();
    Ok(log)
}

fn parse(handle: &Handle) -> Option<LocalHandle> {
    serde_json::from_str(handle).ok()
}

/// Everything alive that belongs to the attempt: its process group, and what left the group but still
/// carries the attempt's id in its environment.
fn members(task: &Task, handle: Option<&LocalHandle>) -> Vec<i32> {
    let mut pids = process::with_variable(env::ATTEMPT, &task.attempt_id);
    // The group's number is the leader's pid; it may be another's group by now if nothing of ours is in it.
    let group = handle.filter(|h| is_here(h)).map(|h| process::in_group(h.pid)).unwrap_or_default();
    let ours = group.iter().any(|pid| pids.contains(pid));
    pids.extend(group.into_iter().filter(|_| ours));
    pids.sort_unstable();
    pids.dedup();
    pids
}

impl Executor for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn submit<'a>(&'a self, task: &'a Task) -> Boxed<'a, Result<Handle, SubmitError>> {
        Box::pin(async move { self.spawn(task) })
    }

    fn observe<'a>(&'a self, task: &'a Task, handle: &'a Handle) -> Boxed<'a, Observation> {
        Box::pin(async move {
            parse(handle).map_or(Observation::Ended(Ending::Gone), |handle| self.look(task, &handle))
        })
    }

    fn changed<'a>(&'a self, handle: &'a Handle) -> Boxed<'a, ()> {
        let status = parse(handle).and_then(|h| self.children().get(&h.pid).cloned());
        Box::pin(async move {
            match status {
                Some(mut status) if status.borrow().is_none() => drop(status.changed().await),
                _ => tokio::time::sleep(POLL).await,
            }
        })
    }

    fn cancel<'a>(&'a self, task: &'a Task, handle: &'a Handle, how: Cancel) -> Boxed<'a, ()> {
        Box::pin(async move {
            let Some(handle) = parse(handle).filter(is_here) else { return };
            let leader_alive = self.look(task, &handle) == Observation::Running;
            let leader = Pid::from_raw(handle.pid);
            match how {
                // Only the worker itself knows what to do with this one.
                Cancel::Checkpoint if leader_alive => drop(kill(leader, Signal::SIGUSR1)),
                Cancel::Checkpoint => {}
                Cancel::Terminate | Cancel::Kill => {
                    let signal = if how == Cancel::Kill { Signal::SIGKILL } else { Signal::SIGTERM };
                    if leader_alive {
                        let _ = killpg(leader, signal);
                    }
                    for pid in members(task, Some(&handle)) {
                        let _ = kill(Pid::from_raw(pid), signal);
                    }
                }
            }
        })
    }

    fn clean_up<'a>(&'a self, task: &'a Task, handle: &'a Handle) -> Boxed<'a, ()> {
        Box::pin(async move {
            let handle = parse(handle);
            let start = Instant::now();
            let mut termed = false;
            loop {
                let left = members(task, handle.as_ref());
                if left.is_empty() {
                    break;
                }
                let signal = if start.elapsed() > GRACE { Signal::SIGKILL } else { Signal::SIGTERM };
                if !termed || signal == Signal::SIGKILL {
                    for pid in left {
                        let _ = kill(Pid::from_raw(pid), signal);
                    }
                    termed = true;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            if let Some(handle) = handle {
                self.children().remove(&handle.pid);
            }
        })
    }

    fn find<'a>(&'a self, task: &'a Task) -> Boxed<'a, Option<Handle>> {
        Box::pin(async move {
            let pids = process::with_variable(env::ATTEMPT, &task.attempt_id);
            // The worker leads its group; its children do not.
            let pid = pids.iter().copied().find(|&pid| process::in_group(pid).contains(&pid))?;
            let started = process::start_time(pid)?;
            let (boot, pid_ns) = (process::boot_id(), process::pid_namespace());
            serde_json::to_string(&LocalHandle { pid, started, boot, pid_ns }).ok()
        })
    }

    fn peak_rss_bytes(&self, handle: &Handle) -> Option<u64> {
        parse(handle).filter(is_here).and_then(|h| process::peak_rss_bytes(h.pid))
    }
}
