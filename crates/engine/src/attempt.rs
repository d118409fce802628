//! One attempt at a stage: recorded, started, followed to its end, judged.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use store::fault;
use store::record::Attempt;
use store::{NewAttempt, StoreError, files, id};

use crate::context::Context;
use crate::control::Level;
use crate::error::{EngineError, code};
use crate::executor::{Cancel, Ending, Handle, Observation, SubmitError, Task};
use crate::protocol::{Event, FailureClass, Manifest, PROTOCOL, Request, file};
use crate::slots::Slot;
use crate::tail::Tail;
use crate::update::{Failure, Update};
use crate::verdict::{Verdict, judge};

/// How often events are looked for while a worker runs.
const TICK: Duration = Duration::from_millis(100);

/// An attempt that has ended, not yet recorded as such.
pub(crate) struct Ended {
    pub attempt: Attempt,
    pub verdict: Verdict,
    pub seconds: f64,
    pub peak_rss_bytes: u64,
    /// Furthest checkpoint that the worker finished.
    pub checkpoint: Option<u64>,
}

impl Context {
    fn task(&self, attempt: &Attempt) -> Task {
        let folder = self.store.layout().attempt(&attempt.id);
        Task {
            run_id: attempt.run_id.clone(),
            stage: attempt.stage.clone(),
            number: attempt.number,
            attempt_id: attempt.id.clone(),
            nonce: attempt.nonce.clone(),
            folder,
        }
    }

    /// Makes an attempt: the row first, then the request, then the worker, then its handle.
    pub async fn make_attempt(&self, at: usize, slot: &Slot) -> Result<Ended, EngineError> {
        let stage = &self.plan.stages[at];
        let checkpoint = self.store.newest_checkpoint(stage.fingerprint.as_str()).await?;
        let ancestors = self.inputs(at).await?;
        let resume_step = checkpoint.as_ref().map(|c| c.step as u64);
        let executor = self.executors.of_stage(&stage.name);
        let new = NewAttempt {
            run_id: &self.run_id,
            stage: &stage.name,
            fingerprint: stage.fingerprint.as_str(),
            executor: executor.name(),
            resume_step,
        };
        let attempt = self.store.begin_attempt(new).await?;
        let task = self.task(&attempt);
        let request = Request {
            protocol: PROTOCOL,
            run_id: self.run_id.clone(),
            attempt_id: attempt.id.clone(),
            attempt: attempt.number,
            nonce: attempt.nonce.clone(),
            stage: stage.clone(),
            ancestors: ancestors.names,
            inputs: ancestors.inputs,
            resume_from: checkpoint.map(|c| self.store.layout().resolve(&c.path)),
            device: slot.device.clone(),
            threads: slot.threads,
            usage: ancestors.usage,
        };
        let request = serde_json::to_vec_pretty(&request)
            .map_err(|source| EngineError::Json { what: "a request", source })?;
        fs::create_dir_all(&task.folder).map_err(io(&task.folder))?;
        files::write_whole(&task.folder.join(file::REQUEST), &request)?;
        fault::point("attempt.requested");
        let submitted = tokio::select! {
            biased;
            submitted = executor.submit(&task) => submitted,
            () = self.control.above(Level::Go) => {
                executor.abandon(&task).await;
                return Ok(unstarted(attempt, Verdict::Stopped));
            }
        };
        let handle = match submitted {
            Ok(handle) => handle,
            Err(error) => return Ok(unstarted(attempt, cannot_start(&error))),
        };
        fault::point("attempt.spawned");
        self.store.attempt_started(&attempt, &handle).await?;
        fault::point("attempt.recorded");
        self.tell(Update::StageStarted {
            stage: stage.name.clone(),
            attempt: attempt.number,
            device: slot.device.clone(),
            resume_step,
            log: task.folder.join(file::LOG),
        });
        self.follow(attempt, task, Some(handle)).await
    }

    /// Finds out what became of an attempt whose driver died: a worker that lives is followed from here on,
    /// a result that is whole is taken, and only what is known to be dead is given up.
    pub async fn recover_attempt(&self, attempt: Attempt) -> Result<Ended, EngineError> {
        let task = self.task(&attempt);
        let executor = self.executors.named(&attempt.executor);
        let handle = match &attempt.handle {
            Some(handle) => Some(handle.clone()),
            None => executor.find(&task).await,
        };
        if let Some(handle) = &handle {
            if attempt.handle.is_none() {
                self.store.attempt_started(&attempt, handle).await?;
            }
            if !matches!(executor.observe(&task, handle).await, Observation::Ended(_)) {
                self.tell(Update::StageAdopted {
                    stage: attempt.stage.clone(),
                    attempt: attempt.number,
                    log: task.folder.join(file::LOG),
                });
            }
        }
        self.follow(attempt, task, handle).await
    }

    /// Follows a worker to its end. Without a handle it is known not to be there.
    async fn follow(
        &self,
        attempt: Attempt,
        task: Task,
        handle: Option<Handle>,
    ) -> Result<Ended, EngineError> {
        let executor = self.executors.named(&attempt.executor);
        let (start, wall) = (Instant::now(), attempt.started_at.unwrap_or(attempt.created_at));
        let waited = (id::now_ms() - wall).max(0) as f64 / 1000.0;
        let mut tail = Tail::new(&task.folder.join(file::EVENTS), &attempt.nonce);
        let mut peak_rss_bytes = 0;
        let ending = match &handle {
            Some(handle) => self.watch(&attempt, &task, handle, &mut tail, &mut peak_rss_bytes).await,
            None => Ending::Gone,
        };
        if let Some(handle) = &handle {
            executor.clean_up(&task, handle).await;
        }
        self.pass_on(&attempt, &mut tail);
        self.store.record_checkpoints(&attempt, file::CHECKPOINTS).await?;
        let manifest = read_manifest(&task.folder, &attempt);
        let verdict = judge(ending, &tail.said, manifest, self.control.level());
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
        attempt: &Attempt,
        task: &Task,
        handle: &Handle,
        tail: &mut Tail,
        peak: &mut u64,
    ) -> Ending {
        let executor = self.executors.named(&attempt.executor);
        let mut signalled = Level::Go;
        loop {
            if let Observation::Ended(ending) = executor.observe(task, handle).await {
                return ending;
            }
            let level = self.control.level();
            if level > signalled {
                signalled = level;
                let how = match level {
                    Level::Kill => Cancel::Kill,
                    Level::Term => Cancel::Terminate,
                    Level::Stop | Level::Go => Cancel::Checkpoint,
                };
                executor.cancel(task, handle, how).await;
            }
            tokio::select! {
                () = executor.changed(handle) => {}
                () = tokio::time::sleep(TICK) => {}
                () = self.control.above(signalled) => {}
            }
            *peak = executor.peak_rss_bytes(handle).unwrap_or(0).max(*peak);
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

fn unstarted(attempt: Attempt, verdict: Verdict) -> Ended {
    Ended { attempt, verdict, seconds: 0.0, peak_rss_bytes: 0, checkpoint: None }
}

fn cannot_start(error: &SubmitError) -> Verdict {
    let refused = matches!(error, SubmitError::Refused { .. });
    let (class, code) = match error.is_transient() {
        true => (FailureClass::Infra, code::CANNOT_START),
        false if refused => (FailureClass::User, code::REFUSED),
        false => (FailureClass::Internal, code::CANNOT_START),
    };
    let (message, help) = (error.to_string(), error.help().to_owned());
    let failure = Failure { class, code: code.into(), message, help };
    if error.is_transient() { Verdict::Died(failure) } else { Verdict::Failed(failure) }
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> EngineError {
    let path: PathBuf = path.to_owned();
    move |source| StoreError::Io { path, source }.into()
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
