//! A whole pipeline, and the tables that are not stages: `[pipeline]`, `[model]`, `[lora]`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use toml::de::DeTable;

use crate::executor::Executor;
use crate::key::{Choice, Rule, Type};
use crate::mistake::{Mistake, Mistakes, Problem, Sources};
use crate::node::{At, Content, Node};
use crate::overrides::Override;
use crate::section::{choice, section};
use crate::stage::StageConfig;
use crate::value::{Read, Value};

/// A whole pipeline file, every default filled in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pipeline {
    pub pipeline: PipelineMeta,
    pub model: Model,
    pub lora: Lora,
    pub executor: Executor,
    /// In the order of the file.
    pub stages: Vec<Stage>,
    /// Where each value was written.
    #[serde(skip)]
    pub(crate) origins: Origins,
}

/// A `[stages.NAME]` table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    pub name: String,
    /// The keys of its kind.
    pub config: StageConfig,
    /// The keys that every kind has.
    pub common: Common,
}

section! {
    /// Keys that a stage of any kind has.
    pub struct Common {
        /// Stages that must have succeeded first although nothing of theirs is read; a gate that refuses
        /// keeps this stage from running.
        pub requires: Vec<String> = Vec::new() => stage(&[]).execution(),
        /// Attempts after the first when the stage itself fails. Failures of the machine are retried apart
        /// from this, see `[executor] infra_retries`.
        pub max_retries: u32 = 0 => at_most(100.0).execution(),
        /// An attempt that takes longer is stopped at its next checkpoint and has failed; 0 = any time.
        pub timeout: f64 = 0.0 => duration().execution(),
        /// Memory that is set aside for the stage on this machine; 0 = it is not asked for any.
        pub memory: u64 = 0 => size().execution(),
        /// Replaces the seed derived from `[pipeline] seed` and the stage's name.
        pub seed: Option<u64> = None,
    }
}

section! {
    /// `[pipeline]`
    pub struct PipelineMeta {
        /// What people call it; shown in lists and reports.
        pub name: String = String::new() => execution().required(),
        /// Everything random in the run derives from this.
        pub seed: u64 = 42,
    }
}

section! {
    /// `[model]`: the base model of stages without a `model` of their own.
    pub struct Model {
        /// A Hugging Face folder (`config.json`, `model.safetensors`, `tokenizer.json`); empty when every
        /// stage names the stage it starts from.
        pub base: String = String::new(),
        /// How the frozen base is stored.
        pub dtype: Dtype = Dtype::F32,
        /// Where tensors live: `auto`, `cpu`, `cuda`, `cuda:1`. Devices differ by rounding only, so that
        /// another one makes nothing run again.
        pub device: Device = Device::Auto => execution(),
    }
}

section! {
    /// `[lora]`, under PEFT's names: the adapters of `ppo` stages.
    pub struct Lora {
        /// Rank.
        pub r: usize = 128 => at_least(1.0),
        /// The update is scaled by `lora_alpha / r`.
        pub lora_alpha: f64 = 128.0 => above(0.0),
        /// Which linear layers of the blocks carry an adapter.
        pub target_modules: TargetModules = TargetModules::AllLinear,
    }
}

choice! {
    /// How the frozen base is stored.
    pub enum Dtype {
        /// 4 bytes a number.
        F32 = "f32",
        /// 2 bytes a number; sums stay in f32.
        Bf16 = "bf16",
    }
}

/// Where tensors live: `auto`, `cpu`, `cuda`, `cuda:1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// CUDA when the program has it and a GPU is there, else the CPU.
    Auto,
    Cpu,
    /// GPU by number.
    Cuda(usize),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Auto => f.write_str("auto"),
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Device::Auto),
            "cpu" => Ok(Device::Cpu),
            "cuda" => Ok(Device::Cuda(0)),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(Device::Cuda)
                .ok_or_else(|| format!("`{text}` is not a device")),
        }
    }
}

impl TryFrom<String> for Device {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Device> for String {
    fn from(device: Device) -> Self {
        device.to_string()
    }
}

impl Value for Device {
    fn to_json(&self) -> Json {
        self.to_string().into()
    }
}

impl Read for Device {
    const TYPE: Type = Type::Device;

    fn read(node: &Node, rule: &Rule, out: &mut Mistakes) -> Option<Self> {
        let text = String::read(node, rule, out)?;
        let device = text.parse().ok();
        if device.is_none() {
            let expected = Self::TYPE.describe();
            out.note(
                &node.at,
                Problem::UnknownWord { key: node.path.clone(), word: text, expected, nearest: None },
            );
        }
        device
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

impl Value for TargetModules {
    fn to_json(&self) -> Json {
        match self {
            TargetModules::AllLinear => "all-linear".into(),
            TargetModules::Names(names) => names.to_json(),
        }
    }
}

impl Read for TargetModules {
    const TYPE: Type =
        Type::ChoiceOrNames(&[Choice { name: "all-linear", doc: "Every linear layer of every block." }]);

    fn read(node: &Node, rule: &Rule, out: &mut Mistakes) -> Option<Self> {
        if let Content::List(_) = node.content {
            return Vec::read(node, rule, out).map(TargetModules::Names);
        }
        crate::value::choice(node, &Self::TYPE, &[("all-linear", ())], out).map(|()| TargetModules::AllLinear)
    }
}

/// Where each value was written, for messages about things outside the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origins {
    pub sources: Sources,
    pub overrides: Vec<Override>,
}

impl Origins {
    /// Where the value of `path` was written. Looked up in the text again: it is rarely asked for.
    fn place(&self, path: &str) -> Option<At> {
        let text = self.sources.text(0)?;
        let table = DeTable::parse(text).ok()?;
        let root = crate::read::tree(&table, &self.overrides, &mut Mistakes::default());
        let mut found = None;
        root.walk(&mut |other, at| {
            if other == path {
                found = Some(at.clone());
            }
        });
        found
    }
}

impl Pipeline {
    /// The stage of that name.
    pub fn stage(&self, name: &str) -> Option<&Stage> {
        self.stages.iter().find(|stage| stage.name == name)
    }

    /// Stages that `stage` depends on directly, in the order in which it names them, each once.
    ///
    /// A `report` that names none reports on all stages that are not reports themselves.
    pub fn dependencies(&self, stage: &Stage) -> Vec<String> {
        let mut names: Vec<String> =
            stage.references().into_iter().map(|reference| reference.stage).collect();
        if let StageConfig::Report(report) = &stage.config
            && report.stages.is_empty()
        {
            let others = self.stages.iter().filter(|other| !matches!(other.config, StageConfig::Report(_)));
            names.extend(others.map(|other| other.name.clone()));
        }
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    /// A mistake that was found outside the file, at the value of `path` (`stages.data.path`).
    pub fn mistake(
        &self,
        path: &str,
        code: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Mistake {
        let problem = Problem::Outside { code: code.into(), message: message.into(), help: help.into() };
        let table = path.rsplit_once('.').map(|(table, _)| table).unwrap_or_default();
        let at = self.origins.place(path).or_else(|| self.origins.place(table));
        self.origins.sources.mistake(at.as_ref(), problem)
    }
}
