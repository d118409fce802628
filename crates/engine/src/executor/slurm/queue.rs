//! One look at the queue for all jobs of a run, in the background, shared by whoever asks.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::commands::Commands;
use super::states::{State, parse};
use crate::update::{Update, Updates};

/// Times the shortest interval that the longest one is.
const SLOWEST: u32 = 6;
/// Ids per command, far below the limit on a command line.
const CHUNK: usize = 100;

/// A job's name for Slurm. Stored with an attempt, as its handle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Job {
    pub id: u64,
    /// Only where `sbatch` names one.
    pub cluster: Option<String>,
    /// Milliseconds since 1970.
    pub submitted: i64,
}

/// What is known of a job.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub state: Option<State>,
    /// Looks in a row with this state.
    pub times: u32,
    /// When it first had this state.
    pub since: Instant,
    /// Looks in a row in which nobody knew the job any more.
    pub unknown: u32,
    /// Why it waits, in Slurm's words.
    pub reason: String,
    /// Where it runs or ran.
    pub node: String,
    /// The node failed under it.
    pub node_failed: bool,
    /// Whether the last look worked.
    pub answered: bool,
}

impl Seen {
    fn nothing() -> Self {
        Self {
            state: None,
            times: 0,
            since: Instant::now(),
            unknown: 0,
            reason: String::new(),
            node: String::new(),
            node_failed: false,
            answered: true,
        }
    }
}

/// A line of `squeue` or `sacct`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub id: u64,
    pub state: String,
    pub node: String,
    pub reason: String,
    pub name: String,
}

pub(super) struct Queue {
    commands: Arc<Commands>,
    updates: Updates,
    shortest: Duration,
    known: Mutex<Known>,
}

struct Known {
    jobs: BTreeMap<Job, Seen>,
    interval: Duration,
    next: Instant,
    in_flight: bool,
    sacct: bool,
    /// Said once, not at every look.
    warned: BTreeSet<String>,
}

impl Queue {
    pub fn new(commands: Arc<Commands>, config: &spec::Executor, updates: Updates) -> Self {
        let shortest = Duration::try_from_secs_f64(config.poll_interval).unwrap_or_default();
        let known = Known {
            jobs: BTreeMap::new(),
            interval: shortest,
            next: Instant::now(),
            in_flight: false,
            sacct: true,
            warned: BTreeSet::new(),
        };
        Self { commands, updates, shortest, known: Mutex::new(known) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the last look said about a job; starts another look when it is time for one. Never waits.
    pub fn seen(self: &Arc<Self>, job: &Job) -> Seen {
        let mut known = self.known();
        let now = Instant::now();
        let seen = known.jobs.entry(job.clone()).or_insert_with(Seen::nothing).clone();
        if !known.in_flight && now >= known.next {
            known.in_flight = true;
            let queue = Arc::clone(self);
            tokio::spawn(async move { queue.look().await });
        }
        seen
    }

    /// Looks soon: something has just changed.
    pub fn hurry(&self) {
        let mut known = self.known();
        known.interval = self.shortest;
        known.next = known.next.min(Instant::now() + self.shortest.min(Duration::from_secs(1)));
    }

    /// A job that nobody asks about any more.
    pub fn forget(&self, job: &Job) {
        self.known().jobs.remove(job);
    }

    /// Says something once.
    pub fn warn(&self, text: String) {
        if self.known().warned.insert(text.clone()) {
            tracing::warn!("{text}");
            let _ = self.updates.send(Update::Notice(text));
        }
    }

    async fn look(&self) {
        let jobs: Vec<Job> = self.known().jobs.keys().cloned().collect();
        let clusters: BTreeSet<Option<String>> = jobs.iter().map(|job| job.cluster.clone()).collect();
        let mut changed = false;
        for cluster in clusters {
            let jobs: Vec<&Job> = jobs.iter().filter(|job| job.cluster == cluster).collect();
            changed |= self.look_at(cluster.as_deref(), &jobs).await;
        }
        let mut known = self.known();
        let longest = self.shortest * SLOWEST;
        known.interval = if changed { self.shortest } else { (known.interval * 3 / 2).min(longest) };
        known.next = Instant::now() + known.interval;
        known.in_flight = false;
    }

    /// Tells whether anything is new.
    async fn look_at(&self, cluster: Option<&str>, jobs: &[&Job]) -> bool {
        // A look that failed says nothing about any job.
        let lines = self.squeue(cluster).await;
        for job in jobs {
            if let Some(seen) = self.known().jobs.get_mut(job) {
                seen.answered = lines.is_some();
            }
        }
        let Some(lines) = lines else { return false };
        let listed: BTreeMap<u64, &Line> = lines.iter().map(|line| (line.id, line)).collect();
        let mut changed = false;
        let mut missing = Vec::new();
        for job in jobs {
            match listed.get(&job.id) {
                Some(line) => {
                    changed |= self.note(job, &line.state);
                    self.note_place(job, line);
                }
                None => missing.push(*job),
            }
        }
        let recorded = self.sacct(cluster, &missing).await;
        for job in missing {
            // A record that says "running" of a job that is not in the queue is a stale one.
            match recorded.get(&job.id).filter(|text| matches!(parse(text), Some(State::Ended(_)))) {
                Some(text) => changed |= self.note(job, text),
                None => changed |= self.scontrol(job).await,
            }
        }
        changed
    }

    fn note(&self, job: &Job, text: &str) -> bool {
        let state = parse(text);
        if state.is_none() {
            self.warn(format!("Slurm says that job {} is {text:?}, which is not known here", job.id));
        }
        let mut known = self.known();
        let Some(seen) = known.jobs.get_mut(job) else { return false };
        seen.unknown = 0;
        seen.node_failed |= text.starts_with("NODE_FAIL");
        if seen.state == state {
            seen.times += 1;
            return false;
        }
        (seen.state, seen.times, seen.since) = (state, 1, Instant::now());
        true
    }

    fn note_place(&self, job: &Job, line: &Line) {
        if let Some(seen) = self.known().jobs.get_mut(job) {
            seen.reason.clone_from(&line.reason);
            if !line.node.is_empty() {
                seen.node.clone_from(&line.node);
            }
        }
    }

    /// All jobs of this user; `None` if that could not be found out.
    pub async fn squeue(&self, cluster: Option<&str>) -> Option<Vec<Line>> {
        let user = nix::unistd::Uid::current();
        let mut arguments: Vec<OsString> = vec![
            "--noheader".into(),
            "--states=all".into(),
            format!("--user={user}").into(),
            "--format=%i|%T|%N|%r|%j".into(),
        ];
        arguments.extend(clusters(cluster));
        let said = match self.commands.run("squeue", &arguments).await {
            Ok(said) => said,
            Err(error) => {
                self.warn(format!("squeue: {error}; jobs go on, and are looked for again"));
                return None;
            }
        };
        if !said.ok {
            self.warn(format!("squeue: {}; jobs go on, and are looked for again", said.message()));
            return None;
        }
        lines(&said.stdout)
    }

    /// States from the accounting database, of the jobs that it knows.
    async fn sacct(&self, cluster: Option<&str>, jobs: &[&Job]) -> BTreeMap<u64, String> {
        let mut found = BTreeMap::new();
        for chunk in jobs.chunks(CHUNK) {
            let ids: Vec<String> = chunk.iter().map(|job| job.id.to_string()).collect();
            let first = chunk.iter().map(|job| job.submitted).min().unwrap_or_default();
            let lines = self.records(cluster, format!("--jobs={}", ids.join(",")), first).await;
            found.extend(lines.into_iter().map(|line| (line.id, line.state)));
        }
        found
    }

    /// Jobs of that name in the accounting database.
    pub async fn recorded(&self, name: &str, since: i64) -> Vec<Line> {
        self.records(None, format!("--name={name}"), since).await
    }

    async fn records(&self, cluster: Option<&str>, which: String, since: i64) -> Vec<Line> {
        if !self.known().sacct {
            return Vec::new();
        }
        // Without a start it looks back to midnight only.
        let age = (store::id::now_ms() - since).max(0) / 1000 + 3600;
        let mut arguments: Vec<OsString> = vec![
            "--allocations".into(),
            "--parsable2".into(),
            "--noheader".into(),
            "--format=JobIDRaw,State,NodeList,ExitCode,JobName".into(),
            format!("--starttime=now-{age}seconds").into(),
            which.into(),
        ];
        arguments.extend(clusters(cluster));
        match self.commands.run("sacct", &arguments).await {
            Ok(said) if said.ok => lines(&said.stdout).unwrap_or_default(),
            Ok(said) => {
                let off = (said.stdout + &said.stderr).contains("accounting storage is disabled");
                self.known().sacct &= !off;
                Vec::new()
            }
            Err(error) => {
                self.known().sacct &= error.kind() != std::io::ErrorKind::NotFound;
                Vec::new()
            }
        }
    }

    /// Asks for one job that is in neither list. Tells whether anything is new.
    async fn scontrol(&self, job: &Job) -> bool {
        let mut arguments: Vec<OsString> = clusters(job.cluster.as_deref()).collect();
        arguments.extend(["show", "job", "--oneliner"].map(OsString::from));
        arguments.push(job.id.to_string().into());
        let Ok(said) = self.commands.run("scontrol", &arguments).await else { return false };
        let state = said.stdout.split_whitespace().find_map(|word| word.strip_prefix("JobState="));
        if let (true, Some(state)) = (said.ok, state) {
            return self.note(job, state);
        }
        if said.stderr.contains("Invalid job id") {
            let mut known = self.known();
            if let Some(seen) = known.jobs.get_mut(job) {
                seen.unknown += 1;
            }
            return true;
        }
        false
    }
}

fn clusters(cluster: Option<&str>) -> impl Iterator<Item = OsString> {
    cluster.map(|cluster| format!("--clusters={cluster}").into()).into_iter()
}

/// The lines with a job, five columns each, the last one a name. Banners around them do not matter; a line
/// that is cut off makes the whole list worthless, since others may be missing.
fn lines(text: &str) -> Option<Vec<Line>> {
    if !text.is_empty() && !text.ends_with('\n') {
        return None;
    }
    let mut found = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(5, '|');
        let Some(Ok(id)) = parts.next().map(|id| id.trim().parse()) else { continue };
        let mut next = || parts.next().map(|part| part.trim().to_owned());
        let (state, node, reason, name) = (next()?, next()?, next()?, next()?);
        if state.is_empty() {
            return None;
        }
        found.push(Line { id, state, node, reason, name });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e76_half_an_answer_is_none() {
        let whole = "slurm: welcome to the cluster\n12|RUNNING|n1|None|pl-a\n13_4|PENDING||x|array\n14|PENDING||Priority|a|b\n";
        let lines_of = lines(whole).unwrap();
        assert_eq!(lines_of.iter().map(|line| line.id).collect::<Vec<_>>(), [12, 14]);
        assert_eq!(lines_of[1].name, "a|b");
        let first_job = whole.find("12|").unwrap();
        for end in first_job + 3..whole.len() {
            if !whole[..end].ends_with('\n') {
                assert_eq!(lines(&whole[..end]), None, "{:?}", &whole[..end]);
            }
        }
        assert_eq!(lines("12|RUNNING\n"), None);
        assert_eq!(lines(""), Some(vec![]));
    }
}
