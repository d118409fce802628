//! One stage of a run, from its reservation to its result: waiting for others that make the same, taking
//! up what a dead driver left, attempts and retries.

use std::time::Duration;

use plan::PlannedStage;
use store::lease::{Claim, stage_lease};
use store::record::{AttemptState, StageState};
use store::{AttemptEnd, Publication, StoreError};

use crate::attempt::Ended;
use crate::context::Context;
use crate::control::Level;
use crate::error::{EngineError, code};
use crate::protocol::{DAMAGED_INPUT, FailureClass, Manifest, file};
use crate::slots::Slot;
use crate::update::{Failure, StageOutcome, Update};
use crate::verdict::Verdict;

/// How often a stage that another run is making is looked at.
const WAIT: Duration = Duration::from_millis(200);

/// What the dispatcher hands to a stage.
pub(crate) struct Job {
    /// Position in the plan.
    pub at: usize,
    pub slot: Slot,
    /// Run it even if its artifact is there.
    pub forced: bool,
    /// A forced stage starts from nothing unless this run already began on it.
    pub fresh: bool,
}

/// How far the retries have got.
#[derive(Default)]
struct Tries {
    infra: u32,
    user: u32,
    checkpoint: Option<u64>,
    /// The last attempt got further than those before.
    moved_on: bool,
}

enum Next {
    Again(Option<(Failure, Duration)>),
    Done(StageState, f64, Option<Failure>),
}

impl Context {
    /// Brings a stage to its end in this run. An error is one of the run: the state folder or the engine.
    pub async fn run_stage(&self, job: &Job) -> Result<StageOutcome, EngineError> {
        let stage = &self.plan.stages[job.at];
        let (state, seconds, failure) = self.reserve_and_run(job).await?;
        let fingerprint = stage.fingerprint.as_str();
        // A success was recorded together with its artifact.
        if state != StageState::Succeeded {
            let message = failure.as_ref().map_or("", |f| f.message.as_str());
            self.store.end_stage(&self.run_id, &stage.name, fingerprint, state, message).await?;
        }
        Ok(StageOutcome { stage: stage.name.clone(), kind: stage.kind.clone(), state, seconds, failure })
    }

    async fn reserve_and_run(&self, job: &Job) -> Result<(StageState, f64, Option<Failure>), EngineError> {
        let stage = &self.plan.stages[job.at];
        if !self.reserve(stage).await? {
            return Ok((StageState::Stopped, 0.0, None));
        }
        // It may have been made while we waited, or by an alike stage of this run.
        if !job.forced
            && let Some(artifact) = self.artifact(stage).await?
        {
            return Ok((StageState::Cached, artifact.seconds, None));
        }
        let mut tries = Tries::default();
        if job.fresh {
            self.store.forget_checkpoints(stage.fingerprint.as_str()).await?;
        }
        for attempt in self.store.open_attempts(stage.fingerprint.as_str()).await? {
            let own = attempt.run_id == self.run_id;
            let ended = self.recover_attempt(stage, attempt).await?;
            // That its driver died is not the stage's fault, and another run's verdict is not ours.
            let died = matches!(ended.verdict, Verdict::Died(_));
            match self.conclude(stage, ended, &mut tries).await? {
                Next::Done(state, seconds, failure) if state.is_done() || (own && !died) => {
                    if state == StageState::Succeeded && !own {
                        // Recorded in the run that began it; here it was made as well.
                        self.store.set_stage(&self.run_id, &stage.name, state, "").await?;
                    }
                    return Ok((state, seconds, failure));
                }
                _ => tries = Tries::default(),
            }
        }
        self.attempts(job, tries).await
    }

    /// Takes the lease on making this artifact; waits while a live process has it. `false`: stopped.
    async fn reserve(&self, stage: &PlannedStage) -> Result<bool, EngineError> {
        let resource = stage_lease(stage.fingerprint.as_str());
        let mut told = false;
        loop {
            match self.store.claim(&resource).await? {
                Claim::Ours { .. } => {
                    store::fault::point("stage.leased");
                    return Ok(true);
                }
                Claim::Taken(_) if self.control.level() > Level::Go => return Ok(false),
                Claim::Taken(owner) => {
                    if !told {
                        self.tell(Update::StageWaiting {
                            stage: stage.name.clone(),
                            owner: owner.to_string(),
                        });
                        told = true;
                    }
                    tokio::select! {
                        () = tokio::time::sleep(WAIT) => {}
                        () = self.control.above(Level::Go) => {}
                    }
                }
            }
        }
    }

    async fn attempts(
        &self,
        job: &Job,
        mut tries: Tries,
    ) -> Result<(StageState, f64, Option<Failure>), EngineError> {
        let stage = &self.plan.stages[job.at];
        loop {
            if self.control.level() > Level::Go {
                return Ok((StageState::Stopped, 0.0, None));
            }
            if let Some(path) = self.changed_input(stage).await? {
                return Ok((StageState::Failed, 0.0, Some(input_changed(&path))));
            }
            let ended = self.make_attempt(job.at, &job.slot).await?;
            match self.conclude(stage, ended, &mut tries).await? {
                Next::Done(state, seconds, Some(mut failure)) if failure.code == DAMAGED_INPUT => {
                    let damaged = self.forget_damaged_inputs(job.at).await?;
                    if !damaged.is_empty() {
                        failure.help = format!("the next run makes `{}` again", damaged.join("`, `"));
                    }
                    return Ok((state, seconds, Some(failure)));
                }
                Next::Done(state, seconds, failure) => return Ok((state, seconds, failure)),
                Next::Again(None) => {}
                Next::Again(Some((failure, delay))) => {
                    let message = failure.message;
                    self.tell(Update::StageRetrying { stage: stage.name.clone(), message, delay });
                    tokio::select! {
                        () = tokio::time::sleep(delay) => {}
                        () = self.control.above(Level::Go) => {}
                    }
                }
            }
        }
    }

    /// Records how an attempt ended and says what comes next.
    async fn conclude(
        &self,
        stage: &PlannedStage,
        ended: Ended,
        tries: &mut Tries,
    ) -> Result<Next, EngineError> {
        tries.moved_on = ended.checkpoint > tries.checkpoint;
        if tries.moved_on {
            tries.checkpoint = ended.checkpoint;
            tries.infra = 0;
        }
        match &ended.verdict {
            Verdict::Finished(manifest) => return self.take(stage, &ended, manifest, tries).await,
            Verdict::Refused(failure) => {
                self.end(&ended, AttemptState::Refused, Some(failure)).await?;
                return Ok(Next::Done(StageState::Refused, ended.seconds, Some(failure.clone())));
            }
            Verdict::Failed(failure) => {
                self.end(&ended, AttemptState::Failed, Some(failure)).await?;
                tries.user += 1;
                if tries.user > stage.max_retries
                    || [code::CANNOT_START, code::REFUSED].contains(&failure.code.as_str())
                {
                    return Ok(Next::Done(StageState::Failed, ended.seconds, Some(failure.clone())));
                }
                return Ok(Next::Again(Some((failure.clone(), self.retry.delay(tries.user)))));
            }
            Verdict::Died(failure) => {
                self.end(&ended, AttemptState::Dead, Some(failure)).await?;
                return Ok(self.after_death(failure, tries, ended.seconds));
            }
            Verdict::Interrupted | Verdict::Stopped => self.end(&ended, AttemptState::Stopped, None).await?,
        }
        if self.control.level() > Level::Go {
            return Ok(Next::Done(StageState::Stopped, ended.seconds, None));
        }
        // Someone else asked it to stop, a scheduler that wants the place back: go on, though not for ever.
        let (class, code) = (FailureClass::Infra, code::INTERRUPTED.to_owned());
        let message = "asked from outside to stop".to_owned();
        Ok(self.after_death(&Failure { class, code, message, help: String::new() }, tries, ended.seconds))
    }

    fn after_death(&self, failure: &Failure, tries: &mut Tries, seconds: f64) -> Next {
        // A place that was taken away says nothing about the stage, nor does a time limit that it lived up to.
        let ran_out = [code::TIME_LIMIT, code::INTERRUPTED].contains(&failure.code.as_str());
        if failure.code == code::DISPLACED || (ran_out && tries.moved_on) {
            return Next::Again(Some((failure.clone(), self.retry.delay(1))));
        }
        tries.infra += 1;
        // Whoever cancels a job does not want to see another one.
        if tries.infra > self.retry.failures || failure.code == code::CANCELLED {
            return Next::Done(StageState::Failed, seconds, Some(failure.clone()));
        }
        Next::Again(Some((failure.clone(), self.retry.delay(tries.infra))))
    }

    /// Makes a whole result current. What does not match its manifest is not taken.
    async fn take(
        &self,
        stage: &PlannedStage,
        ended: &Ended,
        manifest: &Manifest,
        tries: &mut Tries,
    ) -> Result<Next, EngineError> {
        if let Some(path) = self.changed_input(stage).await? {
            let failure = input_changed(&path);
            self.end(ended, AttemptState::Failed, Some(&failure)).await?;
            return Ok(Next::Done(StageState::Failed, ended.seconds, Some(failure)));
        }
        let json = |what, result: serde_json::Result<String>| {
            result.map_err(|source| EngineError::Json { what, source })
        };
        let published = self
            .store
            .publish(Publication {
                attempt: &ended.attempt,
                out: file::OUT,
                kind: &stage.kind,
                pipeline: &self.plan.name,
                parts: &json("fingerprint parts", serde_json::to_string(&stage.parts))?,
                files: &manifest.files,
                summary: &json("a summary", serde_json::to_string(&manifest.summary))?,
                seconds: ended.seconds,
                peak_rss_bytes: ended.peak_rss_bytes,
            })
            .await;
        match published {
            Ok(artifact) => Ok(Next::Done(StageState::Succeeded, artifact.seconds, None)),
            Err(error @ (StoreError::Mismatch { .. } | StoreError::Io { .. })) => {
                let (class, code) = (FailureClass::Infra, code::NOT_TAKEN.to_owned());
                let help = "is the disk full, or does something else write to the state folder?".to_owned();
                let failure = Failure { class, code, message: error.to_string(), help };
                self.end(ended, AttemptState::Dead, Some(&failure)).await?;
                Ok(self.after_death(&failure, tries, ended.seconds))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn end(
        &self,
        ended: &Ended,
        state: AttemptState,
        failure: Option<&Failure>,
    ) -> Result<(), EngineError> {
        let text = |part: fn(&Failure) -> &str| failure.map_or("", part);
        let end = AttemptEnd {
            state,
            class: failure.map(|f| f.class.as_str()),
            code: text(|f| &f.code),
            message: text(|f| &f.message),
            help: text(|f| &f.help),
            seconds: ended.seconds,
            peak_rss_bytes: ended.peak_rss_bytes,
        };
        Ok(self.store.end_attempt(&ended.attempt, end).await?)
    }
}

fn input_changed(path: &str) -> Failure {
    Failure {
        class: FailureClass::User,
        code: code::INPUT_CHANGED.to_owned(),
        message: format!("{path} is not what it was when the run was planned"),
        help: "start a new run: it plans with what is there now, and reuses what did not depend on it"
            .to_owned(),
    }
}
