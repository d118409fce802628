//! The frozen form of a pipeline: nothing optional, nothing left to a default or to the environment.

use std::fmt;

use crate::parts::Parts;
use serde::{Deserialize, Serialize};
use spec::{Device, Dtype, Executor, Lora, StageConfig};

/// BLAKE3 over everything that can change a stage's result, as 64 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub String);

impl Fingerprint {
    /// All 64 hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first 16 digits: what folders are named by and people are shown.
    pub fn short(&self) -> &str {
        self.0.get(..16).unwrap_or(&self.0)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A pipeline with everything that is needed to run it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// `[pipeline] name`.
    pub name: String,
    pub executor: Executor,
    /// In topological order, ties by order of the file.
    pub stages: Vec<PlannedStage>,
    /// Over names and fingerprints of all stages, whatever their order: two plans with the same hash make
    /// the same results.
    pub spec_hash: String,
    /// Some of the pipeline's stages were left out, see [`Plan::select`].
    #[serde(default)]
    pub is_part: bool,
}

impl Plan {
    /// The stage of that name.
    pub fn stage(&self, name: &str) -> Option<&PlannedStage> {
        self.stages.iter().find(|stage| stage.name == name)
    }
}

/// A stage with everything it needs to run, and the fingerprint of what it will make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedStage {
    pub name: String,
    /// As in the file: `hydra-sft`.
    pub kind: String,
    pub config: StageConfig,
    pub lora: Lora,
    /// A Hugging Face folder; empty when the stage starts from another stage's model, or from none.
    pub base_model: String,
    pub dtype: Dtype,
    pub device: Device,
    /// `seed` of the stage, or derived from the pipeline's seed and the stage's name.
    pub seed: u64,
    /// Attempts after the first when the stage itself fails.
    #[serde(default)]
    pub max_retries: u32,
    /// Seconds that an attempt may take; 0 = any.
    #[serde(default)]
    pub timeout: f64,
    /// Bytes set aside for it; 0 = not said.
    #[serde(default)]
    pub memory: u64,
    /// Stages that it names: in its config, then those it only `requires`.
    pub deps: Vec<String>,
    pub fingerprint: Fingerprint,
    /// What the fingerprint is made of: `config.kl_coef` → `0.02`.
    pub parts: Parts,
}
