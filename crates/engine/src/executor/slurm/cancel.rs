//! Sending signals to jobs, several at once, until Slurm has taken them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::commands::Commands;
use super::queue::Job;
use crate::executor::Cancel;

/// Ids per command; fewer where a site takes fewer.
const CHUNK: usize = 100;
/// What is asked for within this time goes out together.
const GATHER: Duration = Duration::from_millis(50);
/// Before another try while Slurm does not answer.
const AGAIN: Duration = Duration::from_secs(2);

pub(super) struct Canceller {
    commands: Arc<Commands>,
    waiting: Mutex<BTreeSet<(Cancel, Job)>>,
}

impl Canceller {
    pub fn new(commands: Arc<Commands>) -> Self {
        Self { commands, waiting: Mutex::default() }
    }

    /// Sees to it in the background.
    pub fn send(self: &Arc<Self>, job: Job, how: Cancel) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let first = waiting.is_empty();
        waiting.insert((how, job));
        if first {
            let this = Arc::clone(self);
            tokio::spawn(async move {
                tokio::time::sleep(GATHER).await;
                let all = std::mem::take(&mut *this.waiting.lock().unwrap_or_else(PoisonError::into_inner));
                for how in [Cancel::Checkpoint, Cancel::Terminate, Cancel::Kill] {
                    let jobs: Vec<Job> =
                        all.iter().filter(|(other, _)| *other == how).map(|(_, job)| job.clone()).collect();
                    let clusters: BTreeSet<_> = jobs.iter().map(|job| job.cluster.clone()).collect();
                    for cluster in clusters {
                        let ids: Vec<u64> =
                            jobs.iter().filter(|job| job.cluster == cluster).map(|job| job.id).collect();
                        for chunk in ids.chunks(CHUNK) {
                            this.cancel(cluster.as_deref(), chunk, how).await;
                        }
                    }
                }
            });
        }
    }

    async fn cancel(&self, cluster: Option<&str>, ids: &[u64], how: Cancel) {
        let steps: &[&[&str]] = match how {
            // A job that has not begun has nothing to keep.
            Cancel::Checkpoint => &[&["--state=PENDING"], &["--signal=USR1", "--batch"]],
            Cancel::Terminate => &[&[]],
            Cancel::Kill => &[&["--signal=KILL", "--full"], &[]],
        };
        for options in steps {
            if !self.scancel(cluster, options, ids).await {
                // Some schedulers and wrappers take one id at a time; and one bad id spoils the others.
                for id in ids {
                    while !self.scancel(cluster, options, &[*id]).await {
                        tokio::time::sleep(AGAIN).await;
                    }
                }
            }
        }
    }

    /// Whether it need not be tried again: it was taken, or there is nothing to cancel any more.
    async fn scancel(&self, cluster: Option<&str>, options: &[&str], ids: &[u64]) -> bool {
        let mut arguments: Vec<OsString> = options.iter().map(OsString::from).collect();
        arguments.extend(cluster.map(|cluster| format!("--clusters={cluster}").into()));
        arguments.extend(ids.iter().map(|id| OsString::from(id.to_string())));
        match self.commands.run("scancel", &arguments).await {
            Ok(said) if said.ok => true,
            Ok(said) => {
                let over = ["Invalid job id", "already completing or completed", "Job/step"];
                tracing::debug!(message = said.message(), "scancel");
                ids.len() == 1 && over.iter().any(|words| said.stderr.contains(words))
            }
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
    }

    /// Cancels whatever job has that name.
    pub async fn by_name(&self, name: &str) {
        let arguments = [format!("--name={name}"), format!("--user={}", nix::unistd::Uid::current())];
        let _ = self.commands.run("scancel", &arguments.map(OsString::from)).await;
    }
}
