//! Following an attempt to its end: events, checkpoints, its log, its time, and being stopped.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use plan::PlannedStage;
use store::id;
use store::record::Attempt;

use crate::attempt::{Ended, unreachable};
use crate::context::Context;
use crate::control::Level;
use crate::error::{EngineError, code};
use crate::executor::{Cancel, Ending, Handle, Observation, Task};
use crate::log;
use crate::protocol::{Event, FailureClass, Manifest, PROTOCOL, file};
use crate::tail::Tail;
use crate::update::{Failure, Update};
use crate::verdict::{Verdict, judge};

/// A worker that is to be killed and whose scheduler does not answer is left after this time.
const LEAVE: Duration = Duration::from_secs(5);
/// A stage whose time is up has this long to write a checkpoint, then as long again to end after TERM.
const CHECKPOINT_WITHIN: Duration = Duration::from_secs(60);
const END_WITHIN: Duration = Duration::from_secs(5);

/// What is known of an attempt's process while it is followed.
struct Watched {
    ending: Ending,
    peak_rss_bytes: u64,
    timed_out: bool,
}

impl Context {
    /// Follows a worker to its end. Without a handle it is known not to be there. The stage's `timeout`
    /// counts from when it is first seen to run: a job that waits is not late, and another driver that takes
    /// an attempt over cannot tell how long it ran.
    pub async fn follow(
        &self,
        stage: &PlannedStage,
        attempt: Attempt,
        task: Task,
        handle: Option<Handle>,
    ) -> Result<Ended, EngineError> {
        let executor = self.executors.named(&attempt.executor);
        let (start, wall) = (Instant::now(), attempt.started_at.unwrap_or(attempt.created_at));
        let waited = (id::now_ms() - wall).max(0) as f64 / 1000.0;
        let mut tail = Tail::new(&task.folder.join(file::EVENTS), &attempt.nonce);
        let watched = match &handle {
            Some(handle) => self.watch(stage, &attempt, &task, handle, &mut tail).await?,
            None => Watched { ending: Ending::Gone, peak_rss_bytes: 0, timed_out: false },
        };
        let Watched { ending, mut peak_rss_bytes, timed_out } = watched;
        if let Some(handle) = &handle {
            executor.clean_up(&task, handle).await;
        }
        self.pass_on(&attempt, &mut tail);
        self.store.record_checkpoints(&attempt, file::CHECKPOINTS).await?;
        let manifest = read_manifest(&task.folder, &attempt);
        let mut verdict = judge(ending, &tail.said, manifest, self.control.level());
        if timed_out && matches!(verdict, Verdict::Interrupted | Verdict::Stopped | Verdict::Died(_)) {
            verdict = Verdict::Failed(timeout(stage.timeout));
        }
        // For an attempt found dead, only its own files say how long it ran.
        let mut seconds = match ending {
            Ending::Gone => last_sign_of_life(&task.folder, wall).unwrap_or(0.0),
            _ => waited.min(1e9) + start.elapsed().as_secs_f64(),
        };
        if let Verdict::Finished(manifest) = &verdict {
            peak_rss_bytes = peak_rss_bytes.max(manifest.usage.peak_rss_bytes);
            if manifest.usage.seconds > 0.0 {
                seconds = manifest.usage.seconds;
            }
        }
        Ok(Ended { attempt, verdict, seconds, peak_rss_bytes, checkpoint: tail.said.checkpoint })
    }

    async fn watch(
        &self,
        stage: &PlannedStage,
        attempt: &Attempt,
        task: &Task,
        handle: &Handle,
        tail: &mut Tail,
    ) -> Result<Watched, EngineError> {
        let executor = self.executors.named(&attempt.executor);
        let (mut running, mut sent, mut peak_rss_bytes) = (None, None, 0);
        let (mut since, mut told) = (Instant::now(), None);
        loop {
            let deadline = running.and_then(|since| deadline(since, stage.timeout));
            match executor.observe(task, handle).await {
                Observation::Ended(ending) => {
                    let timed_out = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                    return Ok(Watched { ending, peak_rss_bytes, timed_out });
                }
                Observation::Running => running = running.or_else(|| Some(Instant::now())),
                Observation::Unknown if self.control.level() == Level::Kill && since.elapsed() > LEAVE => {
                    return Err(unreachable(attempt));
                }
                Observation::Pending | Observation::Unknown => {}
            }
            let whereabouts = executor.whereabouts(task, handle);
            if whereabouts != told {
                told.clone_from(&whereabouts);
                self.tell(Update::StageIs { stage: attempt.stage.clone(), whereabouts });
            }
            let level = self.control.level();
            let wanted = asked(level).max(deadline.and_then(|deadline| overdue(Instant::now(), deadline)));
            if wanted > sent {
                (sent, since) = (wanted, Instant::now());
                if let Some(how) = wanted {
                    executor.cancel(task, handle, how).await;
                }
            }
            tokio::select! {
                () = executor.changed(handle) => {}
                () = tokio::time::sleep(executor.tick()) => {}
                () = self.control.above(level) => {}
            }
            peak_rss_bytes = executor.peak_rss_bytes(handle).unwrap_or(0).max(peak_rss_bytes);
            if let Err(error) = log::cap(&task.folder, self.max_log_size) {
                tracing::warn!(%error, attempt = attempt.id, "its log could not be cut");
            }
            if self.pass_on(attempt, tail)
                && let Err(error) = self.store.record_checkpoints(attempt, file::CHECKPOINTS).await
            {
                // It is looked for again at the end, where an error counts.
                tracing::warn!(%error, attempt = attempt.id, "a checkpoint was not recorded");
            }
        }
    }

    /// Hands new events on; tells whether a checkpoint was among them.
    fn pass_on(&self, attempt: &Attempt, tail: &mut Tail) -> bool {
        let mut checkpoint = false;
        tail.poll(|event| {
            checkpoint |= matches!(event, Event::Checkpoint { .. });
            self.tell(Update::Worker { stage: attempt.stage.clone(), event });
        });
        checkpoint
    }
}

/// What being stopped at that level means for a worker.
fn asked(level: Level) -> Option<Cancel> {
    match level {
        Level::Go => None,
        Level::Stop => Some(Cancel::Checkpoint),
        Level::Term => Some(Cancel::Terminate),
        Level::Kill => Some(Cancel::Kill),
    }
}

/// 0 seconds, or more than there will ever be: none.
fn deadline(since: Instant, timeout: f64) -> Option<Instant> {
    let timeout = Duration::try_from_secs_f64(timeout).ok().filter(|timeout| !timeout.is_zero())?;
    since.checked_add(timeout)
}

/// How hard a stage is pressed whose time was up at `deadline`.
fn overdue(now: Instant, deadline: Instant) -> Option<Cancel> {
    match now.checked_duration_since(deadline)? {
        over if over < CHECKPOINT_WITHIN => Some(Cancel::Checkpoint),
        over if over < CHECKPOINT_WITHIN + END_WITHIN => Some(Cancel::Terminate),
        _ => Some(Cancel::Kill),
    }
}

fn timeout(seconds: f64) -> Failure {
    Failure {
        class: FailureClass::User,
        code: code::TIMEOUT.to_owned(),
        message: format!("it took longer than its timeout of {seconds} s"),
        help: "raise `timeout`; what it did up to its last checkpoint is kept".to_owned(),
    }
}

/// The manifest in an attempt's folder, if it is whole and this attempt's: one with another nonce was left
/// by someone else and means nothing.
fn read_manifest(folder: &Path, attempt: &Attempt) -> Option<Manifest> {
    let text = fs::read(folder.join(file::MANIFEST)).ok()?;
    let manifest: Manifest = serde_json::from_slice(&text).ok()?;
    let ours = manifest.protocol == PROTOCOL
        && manifest.nonce == attempt.nonce
        && manifest.fingerprint == attempt.fingerprint;
    ours.then_some(manifest)
}

/// Seconds from `start_ms` to the last write to the attempt's events or log.
fn last_sign_of_life(folder: &Path, start_ms: i64) -> Option<f64> {
    let written = |name: &str| fs::metadata(folder.join(name)).ok()?.modified().ok();
    let last = [file::EVENTS, file::LOG, file::MANIFEST].into_iter().filter_map(written).max()?;
    let last = last.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis() as i64;
    Some((last - start_ms).max(0) as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e22_a_stage_is_pressed_harder_the_longer_it_is_overdue() {
        let deadline = Instant::now() + Duration::from_secs(100);
        let after = |seconds: f64| overdue(deadline + Duration::from_secs_f64(seconds), deadline);
        assert_eq!(overdue(deadline - Duration::from_secs(1), deadline), None);
        assert_eq!((after(0.0), after(59.9)), (Some(Cancel::Checkpoint), Some(Cancel::Checkpoint)));
        assert_eq!((after(60.0), after(65.0)), (Some(Cancel::Terminate), Some(Cancel::Kill)));
        let since = |timeout| super::deadline(deadline, timeout);
        assert_eq!((since(0.0), since(f64::INFINITY)), (None, None));
        assert_eq!(since(1.0), Some(deadline + Duration::from_secs(1)));
    }
}
