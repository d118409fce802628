//! What every stage of a run needs to know.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use plan::{Links, Plan, PlannedStage};
use store::record::Artifact;
use store::{FileMemo, Store};

use crate::control::Control;
use crate::error::EngineError;
use crate::executor::Executors;
use crate::options::Retry;
use crate::protocol::{Input, Usage};
use crate::update::{Update, Updates};

/// What a stage is given of those that it needs.
pub(crate) struct Ancestors {
    /// In the plan's order.
    pub names: Vec<String>,
    pub inputs: BTreeMap<String, Input>,
    pub usage: BTreeMap<String, Usage>,
}

/// One run, as its stages see it.
pub(crate) struct Context {
    pub store: Store,
    pub executors: Executors,
    pub retry: Retry,
    /// Bytes.
    pub max_log_size: u64,
    pub cwd: PathBuf,
    pub run_id: String,
    pub plan: Plan,
    pub links: Links,
    /// Content hashes of input files.
    pub memo: Arc<Mutex<FileMemo>>,
    pub updates: Updates,
    pub control: Control,
}

impl Context {
    /// Tells whoever listens.
    pub fn tell(&self, update: Update) {
        let _ = self.updates.send(update);
    }

    /// The artifact of a stage, if it is there and whole as far as sizes tell.
    pub async fn artifact(&self, stage: &PlannedStage) -> Result<Option<Artifact>, EngineError> {
        let found = self.store.artifact(stage.fingerprint.as_str()).await?;
        Ok(found.filter(|a| crate::past::state_of(&self.store, a) == plan::Artifact::Present))
    }

    /// Results and costs of all ancestors of a stage.
    pub async fn inputs(&self, at: usize) -> Result<Ancestors, EngineError> {
        let stage = &self.plan.stages[at];
        let ancestors: Vec<&PlannedStage> =
            self.links.ancestors(at).into_iter().map(|ancestor| &self.plan.stages[ancestor]).collect();
        let fingerprints: Vec<&str> = ancestors.iter().map(|s| s.fingerprint.as_str()).collect();
        let artifacts = self.store.artifacts(&fingerprints).await?;
        let by_fingerprint: BTreeMap<&str, &Artifact> =
            artifacts.iter().map(|a| (a.fingerprint.as_str(), a)).collect();
        let (mut inputs, mut usage) = (BTreeMap::new(), BTreeMap::new());
        let names = ancestors.iter().map(|ancestor| ancestor.name.clone()).collect();
        for ancestor in ancestors {
            let Some(artifact) = by_fingerprint.get(ancestor.fingerprint.as_str()) else {
                return Err(EngineError::Task(format!("{} has no result for {}", ancestor.name, stage.name)));
            };
            let path = self.store.layout().resolve(&artifact.path);
            let (kind, config) = (ancestor.kind.clone(), ancestor.config.clone());
            inputs.insert(ancestor.name.clone(), Input { kind, path, config });
            let cost =
                Usage { seconds: artifact.seconds, peak_rss_bytes: artifact.peak_rss_bytes.max(0) as u64 };
            usage.insert(ancestor.name.clone(), cost);
        }
        Ok(Ancestors { names, inputs, usage })
    }

    /// Has the results that a stage reads made again by the next run as far as they are damaged; their stages.
    pub async fn forget_damaged_inputs(&self, at: usize) -> Result<Vec<String>, EngineError> {
        let mut damaged = Vec::new();
        for ancestor in self.links.ancestors(at) {
            let stage = &self.plan.stages[ancestor];
            let Some(artifact) = self.store.artifact(stage.fingerprint.as_str()).await? else { continue };
            let store = self.store.clone();
            let checked = tokio::task::spawn_blocking(move || store.check_artifact(&artifact)).await;
            if checked.map_err(|e| EngineError::Task(e.to_string()))?.is_err() {
                self.store.forget_artifact(stage.fingerprint.as_str()).await?;
                damaged.push(stage.name.clone());
            }
        }
        Ok(damaged)
    }

    /// The first input file that is not what it was when the run was planned.
    pub async fn changed_input(&self, stage: &PlannedStage) -> Result<Option<String>, EngineError> {
        let planned = stage.parts.below("file.");
        let files: Vec<(String, String)> =
            planned.map(|(path, hash)| (path.to_owned(), hash.to_owned())).collect();
        if files.is_empty() {
            return Ok(None);
        }
        let (cwd, shared) = (self.cwd.clone(), Arc::clone(&self.memo));
        let look = move || {
            let mut memo = shared.lock().unwrap_or_else(PoisonError::into_inner);
            // A name that is not UTF-8 was planned lossily and cannot be found again.
            let mut known = files.into_iter().filter(|(path, _)| !path.contains('\u{fffd}'));
            let changed = known.find(|(path, hash)| memo.hash(&cwd.join(path)).ok().as_ref() != Some(hash));
            (changed.map(|(path, _)| path), memo.take_fresh())
        };
        let (changed, fresh) =
            tokio::task::spawn_blocking(look).await.map_err(|e| EngineError::Task(e.to_string()))?;
        fresh.save(&self.store).await?;
        Ok(changed)
    }
}
