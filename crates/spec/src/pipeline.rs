//! The tables that are not stages: `[pipeline]`, `[model]`, `[lora]`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stage::StageConfig;

/// A whole pipeline file, every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pipeline {
    pub pipeline: PipelineMeta,
    pub model: Model,
    pub lora: Lora,
    /// Stage name → stage, in the order of the file.
    pub stages: BTreeMap<String, StageConfig>,
}

/// `[pipeline]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelineMeta {
    pub name: String,
    /// Everything random in the run derives from this.
    pub seed: u64,
}

/// `[model]`: the base model that stages without a `model` key of their own start from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// A Hugging Face folder; empty when every stage names its model stage.
    pub base: String,
    pub dtype: Dtype,
    pub device: Device,
}

/// How the frozen base is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    F32,
    Bf16,
}

/// Where tensors live: `auto`, `cpu`, `cuda`, `cuda:1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    Auto,
    Cpu,
    Cuda(usize),
}

/// `[lora]`, under PEFT's names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lora {
    /// Rank.
    pub r: usize,
    /// The update is scaled by `lora_alpha / r`.
    pub lora_alpha: f64,
    pub target_modules: TargetModules,
}

impl Default for Lora {
    fn default() -> Self {
        Self { r: 128, lora_alpha: 128.0, target_modules: TargetModules::AllLinear }
    }
}

/// Which linear layers of the blocks carry an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetModules {
    AllLinear,
    /// Suffixes as PEFT takes them: `["q_proj", "v_proj"]`.
    #[serde(untagged)]
    Names(Vec<String>),
}
