//! Getting a job into the queue once. An answer of `sbatch` that is not clear is no answer: the job is looked
//! for by its name before anything is submitted again.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use super::Slurm;
use super::commands::Said;
use super::queue::{Job, Line};
use super::script::{self, CLAIM, CLOSED, EXIT, Mark, SCRIPT};
use super::states::{State, parse};
use crate::executor::{SubmitError, Task};

/// Longest wait between two tries while Slurm takes no more jobs.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What came of one `sbatch`.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Taken {
        id: u64,
        cluster: Option<String>,
    },
    /// No, for a reason that lies in the job.
    Refused(String),
    /// Not now: a limit, or the controller is busy or away. It may have been taken nevertheless.
    Busy(String),
    /// It may have been taken or not.
    Unclear(String),
}

impl Slurm {
    pub(super) async fn enqueue(&self, task: &Task) -> Result<Job, SubmitError> {
        let variables = self.variables(&task.stage);
        let mut wait = self.shortest();
        loop {
            let (place, avoiding) = self.place(&task.stage);
            let path = task.folder.join(SCRIPT);
            store::files::write_atomic(&path, &script::script(task, &place, &self.worker)).map_err(
                |error| SubmitError::Write { path, source: std::io::Error::other(error.to_string()) },
            )?;
            let submitted = store::id::now_ms();
            let arguments = script::arguments(task, &place, &self.cwd, &variables);
            let (message, busy) = match self.sbatch(&arguments).await? {
                Answer::Taken { id, cluster } => return Ok(Job { id, cluster, submitted }),
                // Perhaps no other node would do.
                Answer::Refused(_) if avoiding => {
                    self.failed_nodes().clear();
                    continue;
                }
                Answer::Refused(message) => return Err(SubmitError::Refused { message }),
                Answer::Busy(message) => (message, true),
                Answer::Unclear(message) => (message, false),
            };
            self.queue.warn(format!("sbatch: {message}; looking for the job before trying again"));
            if let Some(job) = self.search(task, submitted).await {
                return Ok(job);
            }
            if !busy {
                return Err(SubmitError::Failed { message });
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn sbatch(&self, arguments: &[OsString]) -> Result<Answer, SubmitError> {
        match self.commands.run("sbatch", arguments).await {
            Ok(said) => Ok(answer(&said)),
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                Ok(Answer::Busy("no answer in time".into()))
            }
            Err(source) => Err(SubmitError::Start { program: "sbatch".into(), source }),
        }
    }

    /// The job of a task whose submission may or may not have worked. `None` once it has not turned up for
    /// the whole search time; one that turns up even later does nothing.
    pub(super) async fn look_up(&self, task: &Task) -> Option<Job> {
        if let Some(job) = marked(task) {
            return Some(job);
        }
        if !task.folder.join(SCRIPT).exists() {
            return None;
        }
        let job = self.search(task, store::id::now_ms()).await;
        if job.is_some() {
            return job;
        }
        self.close(task);
        // A job that began before it was closed.
        marked(task)
    }

    async fn search(&self, task: &Task, since: i64) -> Option<Job> {
        let name = script::job_name(task);
        let start = Instant::now();
        loop {
            if let Some(job) = marked(task) {
                return Some(job);
            }
            let listed = self.queue.squeue(None).await;
            let answered = listed.is_some();
            let mut found: Vec<Line> =
                listed.unwrap_or_default().into_iter().filter(|line| line.name == name).collect();
            if found.is_empty() {
                found = self.queue.recorded(&name, since).await;
                found.retain(|line| line.name == name);
            }
            // Of two, the one that is still to do something.
            if let Some(line) = found.iter().max_by_key(|line| (is_open(line), line.id)) {
                return Some(Job { id: line.id, cluster: None, submitted: since });
            }
            if answered && start.elapsed() >= self.search_time() {
                return None;
            }
            tokio::time::sleep(self.shortest()).await;
        }
    }

    /// Keeps a job that has not begun from beginning.
    pub(super) fn close(&self, task: &Task) {
        if task.folder.join(EXIT).exists() {
            return;
        }
        if let Err(error) = std::fs::write(task.folder.join(CLOSED), &task.nonce) {
            tracing::warn!(%error, attempt = task.attempt_id, "cannot mark an attempt as given up");
        }
    }
}

/// The job that works on a task, or has worked on it, by its own word.
pub(super) fn marked(task: &Task) -> Option<Job> {
    let mark = Mark::read(task, EXIT).or_else(|| Mark::read(task, CLAIM))?;
    Some(Job { id: mark.job, cluster: None, submitted: store::id::now_ms() })
}

fn is_open(line: &Line) -> bool {
    !matches!(parse(&line.state), Some(State::Ended(_)))
}

/// `id` or `id;cluster`, on a line of its own among whatever a site's wrapper prints.
fn taken(stdout: &str) -> Option<Answer> {
    stdout.lines().rev().find_map(|line| {
        let (id, cluster) = match line.trim().split_once(';') {
            Some((id, cluster)) => (id, Some(cluster.trim().to_owned())),
            None => (line.trim(), None),
        };
        let id = id.parse().ok().filter(|&id| id > 0)?;
        Some(Answer::Taken { id, cluster })
    })
}

/// The controller took no more of this job than its name.
const BUSY: [&str; 16] = [
    "timed out",
    "timeout",
    "Unable to contact",
    "temporarily",
    "Connection refused",
    "Connection reset",
    "connect failure",
    "communication",
    "Zero Bytes",
    "try again",
    "accounting/QOS policy",
    "QOSMax",
    "QOSGrp",
    "AssocMax",
    "AssocGrp",
    "MaxSubmit",
];

/// A clear no, of the controller or of the command itself. What is on neither list may mean anything.
const REFUSED: [&str; 10] = [
    "Invalid",
    "Memory specification can not be satisfied",
    "Requested node configuration is not available",
    "Requested operation is presently disabled",
    "Requested time limit is invalid",
    "Access/permission denied",
    "not permitted",
    "unrecognized option",
    "invalid option",
    "lua:",
];

fn answer(said: &Said) -> Answer {
    if said.ok {
        return taken(&said.stdout)
            .unwrap_or_else(|| Answer::Unclear(format!("no job id in {:?}", said.stdout.trim())));
    }
    let message = said.message();
    if BUSY.iter().any(|words| message.contains(words)) {
        return Answer::Busy(message);
    }
    // "Invalid authentication credential" is a trouble of the machine.
    let trouble = message.contains("credential");
    if !trouble && REFUSED.iter().any(|words| message.contains(words)) {
        return Answer::Refused(message);
    }
    Answer::Unclear(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(ok: bool, stdout: &str, stderr: &str) -> Said {
        Said { ok, stdout: stdout.into(), stderr: stderr.into() }
    }

    #[test]
    fn e112_e113_only_a_clear_answer_is_one() {
        let taken = |stdout| answer(&said(true, stdout, ""));
        let id = |id, cluster: Option<&str>| Answer::Taken { id, cluster: cluster.map(str::to_owned) };
        assert_eq!(taken("123\n"), id(123, None));
        assert_eq!(taken("*** down on Monday 7 ***\n\n123;north\nHave a nice day\n"), id(123, Some("north")));
        for stdout in ["", "Submitted", "0\n", "12x\n", "*** 7 nodes are down ***\n"] {
            assert!(matches!(taken(stdout), Answer::Unclear(_)), "{stdout:?}");
        }
        let failed = |stderr: &str| answer(&said(false, "", stderr));
        let prefix = "sbatch: error: Batch job submission failed:";
        for busy in [
            "Socket timed out on send/recv operation",
            "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
            "Unable to contact slurm controller (connect failure)",
            "Resource temporarily unavailable",
            "QOSMaxSubmitJobPerUserLimit",
        ] {
            assert!(matches!(failed(&format!("{prefix} {busy}")), Answer::Busy(_)), "{busy}");
        }
        assert!(matches!(failed(&format!("{prefix} Invalid account")), Answer::Refused(_)));
        assert!(matches!(failed("sbatch: unrecognized option '--frob'"), Answer::Refused(_)));
        assert!(matches!(failed(&format!("{prefix} Unspecified error")), Answer::Unclear(_)));
        assert!(matches!(failed(&format!("{prefix} Invalid authentication credential")), Answer::Unclear(_)));
        assert!(matches!(failed("Segmentation fault"), Answer::Unclear(_)));
    }
}
