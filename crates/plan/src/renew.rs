//! What of a plan may change while a run goes on: everything that no fingerprint knows.

use std::collections::HashMap;

use spec::{Effect, StageConfig};

use crate::planned::{Plan, PlannedStage};

impl Plan {
    /// Takes from a newer plan of the same pipeline what decides how stages are run, not what comes out.
    /// Fingerprints stay as they are.
    pub fn take_execution_keys(&mut self, now: &Plan) {
        let newer: HashMap<&str, &PlannedStage> =
            now.stages.iter().map(|stage| (stage.name.as_str(), stage)).collect();
        self.executor = now.executor.clone();
        for stage in &mut self.stages {
            let Some(newer) = newer.get(stage.name.as_str()).filter(|newer| newer.kind == stage.kind) else {
                continue;
            };
            stage.device = newer.device;
            stage.max_retries = newer.max_retries;
            stage.timeout = newer.timeout;
            stage.memory = newer.memory;
            if let Some(config) = with_execution_keys(&stage.config, &newer.config) {
                stage.config = config;
            }
        }
    }
}

/// `config` with the execution-only keys of `newer`, which is of the same kind. `None`: the two do not fit.
fn with_execution_keys(config: &StageConfig, newer: &StageConfig) -> Option<StageConfig> {
    let (mut json, other) = (serde_json::to_value(config).ok()?, serde_json::to_value(newer).ok()?);
    let fields = json.as_object_mut()?;
    newer.section().each(&mut |key, _| {
        if key.rule.effect == Effect::Execution
            && let Some(value) = other.get(key.name)
        {
            fields.insert(key.name.to_owned(), value.clone());
        }
    });
    serde_json::from_value(json).ok()
}
