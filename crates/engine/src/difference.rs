//! Two runs side by side: what their stages depend on, what came out, what it cost. Reads only.

use std::collections::BTreeMap;

use plan::{PartChange, Plan};
use serde::Serialize;
use serde_json::Value;
use store::Store;
use store::record::{Artifact, Run, StageState};

use crate::error::EngineError;

/// Two runs, `old` as named first.
#[derive(Debug, Clone, Serialize)]
pub struct Difference {
    pub old: Run,
    pub new: Run,
    /// Every stage of either, in the order of the new one's plan and then of the old one's.
    pub stages: Vec<StageDifference>,
}

/// A stage of two runs.
#[derive(Debug, Clone, Serialize)]
pub struct StageDifference {
    pub stage: String,
    /// `None`: that run does not have the stage.
    pub old: Option<Side>,
    pub new: Option<Side>,
    /// Of the fingerprint; empty when it is the same.
    pub changes: Vec<PartChange>,
    /// Numbers that both summaries have.
    pub numbers: Vec<Pair>,
}

impl StageDifference {
    /// Both runs have it, with the same fingerprint: then its result is one and the same.
    pub fn is_same(&self) -> bool {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => old.fingerprint == new.fingerprint,
            _ => false,
        }
    }
}

/// A stage in one of the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    pub fingerprint: String,
    pub state: StageState,
    /// Of its result, over all attempts; `None` without one.
    pub seconds: Option<f64>,
    pub peak_rss_bytes: Option<i64>,
}

/// A number of two summaries.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// `held_out.perplexity_after`
    pub name: String,
    pub old: f64,
    pub new: f64,
}

/// One run, as far as it is compared.
struct Looked {
    run: Run,
    plan: Plan,
    states: BTreeMap<String, StageState>,
    artifacts: BTreeMap<String, Artifact>,
}

impl Looked {
    async fn load(store: &Store, run: &str) -> Result<Self, EngineError> {
        let run = store.run(run).await?;
        let plan: Plan = serde_json::from_str(&run.plan)
            .map_err(|source| EngineError::OldPlan { run: run.id.clone(), source })?;
        let stages = store.stages(&run.id).await?;
        let fingerprints: Vec<&str> = stages.iter().map(|stage| stage.fingerprint.as_str()).collect();
        let artifacts = store.artifacts(&fingerprints).await?;
        let artifacts = artifacts.into_iter().map(|a| (a.fingerprint.clone(), a)).collect();
        let states = stages.into_iter().map(|stage| (stage.name, stage.state)).collect();
        Ok(Self { run, plan, states, artifacts })
    }

    fn artifact(&self, stage: &str) -> Option<&Artifact> {
        let done = self.states.get(stage).is_some_and(|state| state.is_done());
        self.artifacts.get(self.plan.stage(stage)?.fingerprint.as_str()).filter(|_| done)
    }

    fn side(&self, stage: &str) -> Option<Side> {
        let fingerprint = self.plan.stage(stage)?.fingerprint.0.clone();
        let state = self.states.get(stage).copied().unwrap_or(StageState::Pending);
        let artifact = self.artifact(stage);
        let (seconds, peak_rss_bytes) = (artifact.map(|a| a.seconds), artifact.map(|a| a.peak_rss_bytes));
        Some(Side { fingerprint, state, seconds, peak_rss_bytes })
    }

    fn numbers(&self, stage: &str) -> BTreeMap<String, f64> {
        let mut numbers = BTreeMap::new();
        let summary = self.artifact(stage).and_then(|a| serde_json::from_str(&a.summary).ok());
        flatten(&mut String::new(), &summary.unwrap_or(Value::Null), &mut numbers);
        numbers
    }
}

/// Compares two runs; ids may be shortened.
pub async fn difference(store: &Store, old: &str, new: &str) -> Result<Difference, EngineError> {
    let (old, new) = (Looked::load(store, old).await?, Looked::load(store, new).await?);
    let names = new.plan.stages.iter().map(|stage| &stage.name);
    let only_old = old.plan.stages.iter().map(|stage| &stage.name);
    let only_old = only_old.filter(|name| new.plan.stage(name).is_none());
    let stages = names.chain(only_old).map(|name| compare(name, &old, &new)).collect();
    Ok(Difference { old: old.run, new: new.run, stages })
}

fn compare(stage: &str, old: &Looked, new: &Looked) -> StageDifference {
    let changes = match (old.plan.stage(stage), new.plan.stage(stage)) {
        (Some(old), Some(new)) => plan::changes(&old.parts, &new.parts),
        _ => Vec::new(),
    };
    let after = new.numbers(stage);
    let both = old.numbers(stage).into_iter();
    let numbers = both.filter_map(|(name, old)| Some(Pair { new: *after.get(&name)?, name, old })).collect();
    StageDifference { stage: stage.to_owned(), old: old.side(stage), new: new.side(stage), changes, numbers }
}

/// Numbers of a JSON value by their paths. Lists are left out: they are series, not results.
fn flatten(path: &mut String, value: &Value, numbers: &mut BTreeMap<String, f64>) {
    match value {
        Value::Number(number) => {
            numbers.extend(number.as_f64().map(|number| (path.clone(), number)));
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let length = path.len();
                if length > 0 {
                    path.push('.');
                }
                path.push_str(name);
                flatten(path, value, numbers);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_named_by_their_paths() {
        let summary =
            serde_json::json!({ "a": 1, "b": { "c": 0.5, "d": [1, 2], "e": { "f": 2 } }, "g": "x" });
        let mut numbers = BTreeMap::new();
        flatten(&mut String::new(), &summary, &mut numbers);
        let expected = [("a", 1.0), ("b.c", 0.5), ("b.e.f", 2.0)];
        assert_eq!(numbers, expected.map(|(name, value)| (name.to_owned(), value)).into());
    }
}
