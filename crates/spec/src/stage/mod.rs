//! One file per stage kind, named like the kind.

mod generate;
mod hydra_sft;
mod judge;
mod ppo;
mod prepare;
mod pretrain;
mod report;
mod reward;
mod reward_eval;
mod rouge;
mod sft;
mod training;

use serde::{Deserialize, Serialize};

pub use generate::Generate;
pub use hydra_sft::HydraSft;
pub use judge::{Judge, Provider};
pub use ppo::{KlEstimator, Method, Ppo};
pub use prepare::{Format, OnBadRow, Prepare, Source};
pub use pretrain::{Architecture, Pretrain};
pub use report::Report;
pub use reward::{Reward, RewardLoss};
pub use reward_eval::RewardEval;
pub use rouge::Rouge;
pub use sft::Sft;
pub use training::{LrScheduler, Training};

use crate::pipeline::Stage;
use crate::section::Section;

macro_rules! kinds {
    ($( $(#[doc = $doc:expr])* $kind:ident = $word:literal ),* $(,)?) => {
        /// A stage of any kind; `kind` in the file selects the variant.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind")]
        pub enum StageConfig {
            $( $(#[doc = $doc])* #[serde(rename = $word)] $kind($kind), )*
        }

        /// Every kind with what it does.
        pub const KINDS: &[(&str, &str)] = &[ $( ($word, concat!($($doc),*).trim_ascii()), )* ];

        impl StageConfig {
            /// A stage of the kind with all defaults; `None` when there is no such kind.
            pub fn of_kind(kind: &str) -> Option<Self> {
                match kind {
                    $( $word => Some(StageConfig::$kind(Default::default())), )*
                    _ => None,
                }
            }

            /// The kind as in the file: `hydra-sft`.
            pub fn kind(&self) -> &'static str {
                match self { $( StageConfig::$kind(_) => $word, )* }
            }

            /// The keys of its kind.
            pub fn section(&self) -> &dyn Section {
                match self { $( StageConfig::$kind(config) => config, )* }
            }

            /// The keys of its kind, to be set.
            pub(crate) fn section_mut(&mut self) -> &mut dyn Section {
                match self { $( StageConfig::$kind(config) => config, )* }
            }
        }
    };
}

kinds! {
    /// Language modelling on plain text, from scratch or continued.
    Pretrain = "pretrain",
    /// A raw data set becomes tokenised, split preference pairs and prompts.
    Prepare = "prepare",
    /// Supervised fine-tuning on the preferred responses.
    Sft = "sft",
    /// A reward model by itself, trained on pairs.
    Reward = "reward",
    /// LM loss + `reward_loss_coef` · reward loss on one decoder with two heads.
    HydraSft = "hydra-sft",
    /// Accuracy, margin and score statistics on held-out pairs, and a gate.
    RewardEval = "reward-eval",
    /// Reinforcement learning from the reward model.
    Ppo = "ppo",
    /// Answers of several models to the same held-out prompts.
    Generate = "generate",
    /// Pairwise verdicts over the answers of a `generate` stage.
    Judge = "judge",
    /// ROUGE of the answers against the preferred responses.
    Rouge = "rouge",
    /// One table and one self-contained HTML page over the results of other stages.
    Report = "report",
}

/// A key of a stage that names another stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// `model`, or `models[1]` in a list.
    pub key: String,
    /// The stage named.
    pub stage: String,
    /// Kinds that fit; empty = all.
    pub kinds: &'static [&'static str],
}

/// A file or folder that a stage reads besides the results of other stages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Path of the key that names it: `stages.data.path`, `model.base`.
    pub key: String,
    pub path: String,
    pub role: FileRole,
}

/// What an [`InputFile`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRole {
    /// Raw data of a [`Source`].
    Data,
    /// A Hugging Face model folder.
    Model,
    /// A judge's prompt template.
    Prompt,
}

impl StageConfig {
    /// Stages that the keys of its kind name.
    pub fn references(&self) -> Vec<Reference> {
        let mut found = named_stages(self.section());
        if let StageConfig::Judge(judge) = self
            && judge.provider == Provider::RewardModel
            && !judge.model.is_empty()
        {
            let kinds = &["reward", "hydra-sft"];
            found.push(Reference { key: "model".into(), stage: judge.model.clone(), kinds });
        }
        found
    }

    /// The `model` key of kinds that fall back on `[model] base` when it is empty.
    pub fn start_model(&self) -> Option<&str> {
        match self {
            StageConfig::Pretrain(stage) => Some(&stage.model),
            StageConfig::Prepare(stage) => Some(&stage.model),
            StageConfig::Sft(stage) => Some(&stage.model),
            StageConfig::Reward(stage) => Some(&stage.model),
            StageConfig::HydraSft(stage) => Some(&stage.model),
            _ => None,
        }
    }

    /// The source of raw data, of kinds that read one.
    pub fn source(&self) -> Option<&Source> {
        match self {
            StageConfig::Pretrain(stage) => Some(&stage.source),
            StageConfig::Prepare(stage) => Some(&stage.source),
            _ => None,
        }
    }

    /// Whether its result depends on the seed.
    pub fn uses_seed(&self) -> bool {
        match self {
            StageConfig::Generate(stage) => stage.temperature > 0.0,
            StageConfig::RewardEval(_)
            | StageConfig::Judge(_)
            | StageConfig::Rouge(_)
            | StageConfig::Report(_) => false,
            StageConfig::Pretrain(_)
            | StageConfig::Prepare(_)
            | StageConfig::Sft(_)
            | StageConfig::Reward(_)
            | StageConfig::HydraSft(_)
            | StageConfig::Ppo(_) => true,
        }
    }
}

impl Stage {
    /// Stages that it names, in its own keys or in `requires`.
    pub fn references(&self) -> Vec<Reference> {
        let mut found = self.config.references();
        found.extend(named_stages(&self.common));
        found
    }

    /// Files that it reads, given `[model] base`.
    pub fn files(&self, base: &str) -> Vec<InputFile> {
        let key = |name: &str| format!("stages.{}.{name}", self.name);
        let mut files = Vec::new();
        if let Some(source) = self.config.source()
            && source.format != Format::SyntheticQa
        {
            files.push(InputFile { key: key("path"), path: source.path.clone(), role: FileRole::Data });
        }
        if self.config.start_model() == Some("") && !base.is_empty() {
            files.push(InputFile { key: "model.base".into(), path: base.into(), role: FileRole::Model });
        }
        if let StageConfig::Judge(judge) = &self.config
            && judge.provider == Provider::Openai
            && !judge.prompt.is_empty()
        {
            files.push(InputFile { key: key("prompt"), path: judge.prompt.clone(), role: FileRole::Prompt });
        }
        files
    }
}

fn named_stages(section: &dyn Section) -> Vec<Reference> {
    let mut found = Vec::new();
    section.each(&mut |key, value| {
        let Some(kinds) = key.rule.stages else { return };
        let names = value.names();
        let list = key.ty == crate::key::Type::Names;
        for (index, name) in names.into_iter().enumerate() {
            let key = if list { format!("{}[{index}]", key.name) } else { key.name.to_owned() };
            found.push(Reference { key, stage: name.to_owned(), kinds });
        }
    });
    found
}
