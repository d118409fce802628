//! From a pipeline to a plan.

use std::collections::BTreeMap;

use spec::{Pipeline, Stage};

use crate::error::PlanError;
use crate::fingerprint::{self, FileHasher};
use crate::graph::Graph;
use crate::planned::{Fingerprint, Plan, PlannedStage};

impl Plan {
    /// Freezes a pipeline. Reads, through `files`, the content of every file that a stage reads.
    ///
    /// # Errors
    /// A file that cannot be read. A pipeline from `spec::parse` has no other.
    pub fn new(pipeline: &Pipeline, files: &mut dyn FileHasher) -> Result<Self, PlanError> {
        let graph = Graph::new(pipeline)?;
        let order = graph.order()?;
        let mut fingerprints = BTreeMap::new();
        let mut stages = Vec::with_capacity(order.len());
        for node in order {
            let stage = &pipeline.stages[node.index()];
            let seed = stage.common.seed.unwrap_or_else(|| derive_seed(pipeline.pipeline.seed, &stage.name));
            let inputs = inputs(pipeline, stage, &fingerprints);
            let parts = fingerprint::parts(pipeline, stage, seed, inputs, files)?;
            let fingerprint = fingerprint::of(parts.iter());
            fingerprints.insert(stage.name.as_str(), fingerprint.clone());
            stages.push(PlannedStage {
                name: stage.name.clone(),
                kind: stage.config.kind().to_owned(),
                config: stage.config.clone(),
                lora: pipeline.lora.clone(),
                base_model: base_model(pipeline, stage),
                dtype: pipeline.model.dtype,
                device: pipeline.model.device,
                seed,
                max_retries: stage.common.max_retries,
                timeout: stage.common.timeout,
                memory: stage.common.memory,
                deps: graph.deps(node),
                fingerprint,
                parts,
            });
        }
        let spec_hash = spec_hash(&stages);
        Ok(Self {
            name: pipeline.pipeline.name.clone(),
            executor: pipeline.executor.clone(),
            stages,
            spec_hash,
            is_part: false,
        })
    }
}

/// See [`Plan::spec_hash`].
pub(crate) fn spec_hash(stages: &[PlannedStage]) -> String {
    let mut all: Vec<_> =
        stages.iter().map(|stage| (stage.name.as_str(), stage.fingerprint.as_str())).collect();
    all.sort_unstable();
    fingerprint::of(all.into_iter()).0
}

fn base_model(pipeline: &Pipeline, stage: &Stage) -> String {
    match stage.config.start_model() {
        Some("") => pipeline.model.base.clone(),
        _ => String::new(),
    }
}

/// Stages whose results are read, with their fingerprints. What is only required is not among them: a gate
/// can keep a stage from running but cannot change what it makes.
fn inputs<'a>(
    pipeline: &Pipeline,
    stage: &Stage,
    fingerprints: &BTreeMap<&str, Fingerprint>,
) -> impl Iterator<Item = (String, Fingerprint)> + use<'a> {
    let named: Vec<_> = stage.config.references().into_iter().map(|reference| reference.stage).collect();
    let read = pipeline
        .dependencies(stage)
        .into_iter()
        .filter(|name| named.contains(name) || !stage.common.requires.contains(name));
    let found: Vec<_> = read
        .filter_map(|name| fingerprints.get(name.as_str()).cloned().map(|fingerprint| (name, fingerprint)))
        .collect();
    found.into_iter()
}

/// Seed of a stage: changing one stage's name or adding another never changes the others' randomness.
fn derive_seed(seed: u64, stage: &str) -> u64 {
    let mut hasher = blake3::Hasher::new_derive_key("hydra-pipeline 2026 stage seed");
    hasher.update(&seed.to_le_bytes());
    hasher.update(stage.as_bytes());
    let mut bytes = [0; 8];
    hasher.finalize_xof().fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
