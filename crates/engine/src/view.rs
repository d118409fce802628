//! Looking at runs: what `status`, `logs`, `explain` and `report` show. Reads only.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plan::{Decision, PartChange, Parts, Plan, Reason};
use serde::Serialize;
use store::Store;
use store::record::{Artifact, Attempt, AttemptState, Run, Stage};

use crate::error::EngineError;
use crate::protocol::{Event, file};
use crate::tail::Tail;

/// A run with its stages.
#[derive(Debug, Clone, Serialize)]
pub struct RunView {
    pub run: Run,
    pub stages: Vec<StageView>,
}

/// A stage of a run.
#[derive(Debug, Clone, Serialize)]
pub struct StageView {
    #[serde(flatten)]
    pub stage: Stage,
    /// Why it was to run; empty when it was not.
    pub reasons: Vec<Reason>,
    pub attempts: Vec<Attempt>,
    /// The current result for its fingerprint, whichever run made it.
    pub artifact: Option<Artifact>,
    /// Where the artifact is.
    pub path: Option<PathBuf>,
    /// Log of the newest attempt: of this run, else of the one that made the artifact.
    pub log: Option<PathBuf>,
    /// The newest progress line of a running stage.
    pub progress: Option<Progress>,
}

/// How far a running stage is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Progress {
    pub step: u64,
    pub total: u64,
    pub unit: String,
    pub message: String,
}

/// What a stage's fingerprint is made of, and what changed since its last success.
#[derive(Debug, Clone, Serialize)]
pub struct Explanation {
    pub stage: String,
    pub fingerprint: String,
    pub decision: Decision,
    pub parts: Parts,
    /// The stage's last success, if there was one.
    pub last: Option<Artifact>,
    /// Against that success; empty when nothing differs.
    pub changes: Vec<PartChange>,
}

/// A run and everything about its stages. `run_id` may be shortened; the newest run if `None`.
pub async fn run_view(store: &Store, run_id: Option<&str>) -> Result<Option<RunView>, EngineError> {
    let run = match run_id {
        Some(id) => store.run(id).await?,
        None => match store.runs(1).await?.pop() {
            Some(run) => run,
            None => return Ok(None),
        },
    };
    let stages = store.stages(&run.id).await?;
    let mut attempts: BTreeMap<String, Vec<Attempt>> = BTreeMap::new();
    for attempt in store.attempts(&run.id).await? {
        attempts.entry(attempt.stage.clone()).or_default().push(attempt);
    }
    let fingerprints: Vec<&str> = stages.iter().map(|s| s.fingerprint.as_str()).collect();
    let artifacts: BTreeMap<String, Artifact> =
        store.artifacts(&fingerprints).await?.into_iter().map(|a| (a.fingerprint.clone(), a)).collect();
    let view = |stage: Stage| {
        let attempts = attempts.remove(&stage.name).unwrap_or_default();
        let artifact = artifacts.get(&stage.fingerprint).cloned();
        stage_view(store, stage, attempts, artifact)
    };
    Ok(Some(RunView { run, stages: stages.into_iter().map(view).collect() }))
}

fn stage_view(store: &Store, stage: Stage, attempts: Vec<Attempt>, artifact: Option<Artifact>) -> StageView {
    let newest = attempts.last();
    let folder = newest.map(|a| a.id.as_str()).or(artifact.as_ref().map(|a| a.attempt_id.as_str()));
    let log = folder.map(|id| store.layout().attempt(id).join(file::LOG));
    let running = newest.filter(|a| a.state == AttemptState::Running);
    let progress = running.and_then(|attempt| newest_progress(store, attempt));
    let path = artifact.as_ref().map(|a| store.layout().resolve(&a.path));
    let reasons = serde_json::from_str(&stage.reasons).unwrap_or_default();
    StageView { stage, reasons, attempts, artifact, path, log, progress }
}

fn newest_progress(store: &Store, attempt: &Attempt) -> Option<Progress> {
    let path = store.layout().attempt(&attempt.id).join(file::EVENTS);
    let mut newest = None;
    Tail::near_the_end(&path, &attempt.nonce).poll(|event| {
        if let Event::Progress { step, total, unit, message } = event {
            newest = Some(Progress { step, total, unit, message });
        }
    });
    newest
}

/// Why a stage of the plan would run or not.
pub async fn explain(store: &Store, plan: &Plan, stage: &str) -> Result<Explanation, EngineError> {
    let unknown = || EngineError::UnknownStage(stage.to_owned());
    let decisions = crate::engine::decisions(store, plan, &Default::default()).await?;
    let decision = decisions.into_iter().find(|d| d.stage == stage).ok_or_else(unknown)?;
    let planned = plan.stage(stage).ok_or_else(unknown)?;
    let last = store.last_artifact(&plan.name, stage).await?;
    let old: Option<Parts> = last.as_ref().and_then(|a| serde_json::from_str(&a.parts).ok());
    let changes = old.map(|old| plan::changes(&old, &planned.parts)).unwrap_or_default();
    Ok(Explanation {
        stage: stage.to_owned(),
        fingerprint: planned.fingerprint.0.clone(),
        decision,
        parts: planned.parts.clone(),
        last,
        changes,
    })
}
