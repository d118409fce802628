//! The frozen form of a stage: nothing optional, nothing left to a default or to the environment.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use spec::{Device, Dtype, Lora, StageConfig};

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

/// A stage with everything it needs to run, and the fingerprint of what it will make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedStage {
    pub name: String,
    /// As in the file: `hydra-sft`.
    pub kind: String,
    pub config: StageConfig,
    pub lora: Lora,
    /// A Hugging Face folder; empty when the stage starts from another stage's model.
    pub base_model: String,
    pub dtype: Dtype,
    pub device: Device,
    /// Derived from the pipeline's seed and the stage's name.
    pub seed: u64,
    /// Stages named in the config.
    pub deps: Vec<String>,
    /// All stages it needs, directly or not, in topological order.
    pub ancestors: Vec<String>,
    pub fingerprint: Fingerprint,
    /// What the fingerprint is made of: `config.kl_coef` → `0.02`.
    pub parts: BTreeMap<String, String>,
}
