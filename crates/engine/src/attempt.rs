//! One attempt at a stage: recorded, started; or found again after its driver died.

use std::fs;
use std::path::{Path, PathBuf};

use plan::PlannedStage;
use store::fault;
use store::record::{Attempt, Checkpoint};
use store::{NewAttempt, StoreError, files};

use crate::context::Context;
use crate::control::Level;
use crate::error::{EngineError, code};
use crate::executor::{Observation, SubmitError, Task};
use crate::protocol::{Event, FailureClass, PROTOCOL, Request, file};
use crate::slots::Slot;
use crate::update::{Failure, Update};
use crate::verdict::Verdict;

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
        let checkpoint = self.whole_checkpoint(stage).await?;
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
            // More threads than CPUs only get into each other's way.
            threads: slot.threads.min(std::thread::available_parallelism().map_or(1, usize::from)),
            usage: ancestors.usage,
        };
        let request = serde_json::to_vec_pretty(&request)
            .map_err(|source| EngineError::Json { what: "a request", source })?;
        // A file system that is busy with a commit lets nobody make files for a while.
        let folder = task.folder.clone();
        let written = tokio::task::spawn_blocking(move || -> Result<(), EngineError> {
            fs::create_dir_all(&folder).map_err(io(&folder))?;
            Ok(files::write_whole(&folder.join(file::REQUEST), &request)?)
        });
        written.await.map_err(|e| EngineError::Task(e.to_string()))??;
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
            device: if executor.name() == "local" { slot.device.clone() } else { executor.name().into() },
            resume_step,
            log: task.folder.join(file::LOG),
        });
        self.follow(stage, attempt, task, Some(handle)).await
    }

    /// The furthest checkpoint that is what it was when it was made.
    async fn whole_checkpoint(&self, stage: &PlannedStage) -> Result<Option<Checkpoint>, EngineError> {
        while let Some(checkpoint) = self.store.newest_checkpoint(stage.fingerprint.as_str()).await? {
            let folder = self.store.layout().resolve(&checkpoint.path);
            let checked = tokio::task::spawn_blocking(move || files::check_seal(&folder)).await;
            let Err(error) = checked.map_err(|e| EngineError::Task(e.to_string()))? else {
                return Ok(Some(checkpoint));
            };
            let message = format!("a checkpoint is passed over: {error}");
            self.tell(Update::Worker { stage: stage.name.clone(), event: Event::Warning { message } });
            self.store.forget_checkpoint(&checkpoint).await?;
        }
        Ok(None)
    }

    /// Finds out what became of an attempt whose driver died: a worker that lives is followed from here on,
    /// a result that is whole is taken, and only what is known to be dead is given up.
    pub async fn recover_attempt(
        &self,
        stage: &PlannedStage,
        attempt: Attempt,
    ) -> Result<Ended, EngineError> {
        let task = self.task(&attempt);
        let executor = self.executors.named(&attempt.executor);
        let handle = match &attempt.handle {
            Some(handle) => Some(handle.clone()),
            None => tokio::select! {
                biased;
                found = executor.find(&task) => found,
                // It may take as long as its scheduler does not answer.
                () = self.control.above(Level::Stop) => return Err(unreachable(&attempt)),
            },
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
        self.follow(stage, attempt, task, handle).await
    }
}

/// A worker that cannot be reached any more, because its scheduler does not answer.
pub(crate) fn unreachable(attempt: &Attempt) -> EngineError {
    EngineError::Unreachable { stage: attempt.stage.clone(), executor: attempt.executor.clone() }
}

fn unstarted(attempt: Attempt, verdict: Verdict) -> Ended {
    Ended { attempt, verdict, seconds: 0.0, peak_rss_bytes: 0, checkpoint: None }
}

fn cannot_start(error: &SubmitError) -> Verdict {
    let refused = matches!(error, SubmitError::Refused { .. });
    let (class, code) = match error.is_transient() {
        true => (FailureClass::Infra, code::CANNOT_START),
        // What is asked for is no part of the plan: going on with the run asks again.
        false if refused => (FailureClass::Infra, code::REFUSED),
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
