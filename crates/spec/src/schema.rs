//! The schema as data: for the reference page, for completions, and for tests that walk every key.

use serde::Serialize;

use crate::executor::Executor;
use crate::key::{Choice, Effect, Type};
use crate::pipeline::{Common, Lora, Model, PipelineMeta};
use crate::section::Section;
use crate::stage::{KINDS, StageConfig};
use crate::units::Unit;

/// Every table of a pipeline file.
#[derive(Debug, Clone, Serialize)]
pub struct Schema {
    pub tables: Vec<Table>,
}

/// A table and its keys.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// `[lora]`, `[stages.NAME]` (keys of every kind), `kind = "ppo"`.
    pub name: String,
    pub doc: String,
    pub keys: Vec<KeySchema>,
}

/// A key.
#[derive(Debug, Clone, Serialize)]
pub struct KeySchema {
    pub name: &'static str,
    pub doc: &'static str,
    /// For people: "a number".
    pub ty: String,
    /// The words it may be, if it is one of a few.
    pub choices: Vec<Choice>,
    pub default: serde_json::Value,
    pub required: bool,
    /// `at least 0`
    pub range: Option<String>,
    pub unit: Option<Unit>,
    pub effect: Effect,
    /// Kinds of the stages that the value may name.
    pub stages: Option<Vec<&'static str>>,
}

/// The schema of pipeline files.
pub fn schema() -> Schema {
    let mut tables = vec![
        table("[pipeline]", "The pipeline as a whole.", &PipelineMeta::default()),
        table("[model]", "The base model of stages without a `model` of their own.", &Model::default()),
        table("[lora]", "The adapters of `ppo` stages, under PEFT's names.", &Lora::default()),
        table("[executor]", EXECUTOR, &Executor::default()),
        table("[stages.NAME]", "Keys that a stage of any kind has, besides `kind`.", &Common::default()),
    ];
    for (kind, doc) in KINDS {
        if let Some(config) = StageConfig::of_kind(kind) {
            tables.push(table(&format!("kind = \"{kind}\""), doc, config.section()));
        }
    }
    Schema { tables }
}

fn table(name: &str, doc: &str, section: &dyn Section) -> Table {
    let mut keys = Vec::new();
    section.each(&mut |key, value| {
        let choices = match key.ty {
            Type::Choice(choices) | Type::ChoiceOrNames(choices) => choices.to_vec(),
            _ => Vec::new(),
        };
        keys.push(KeySchema {
            name: key.name,
            doc: key.doc,
            ty: key.ty.describe(),
            choices,
            default: value.to_json(),
            required: key.rule.required,
            range: key.rule.range(),
            unit: key.rule.unit,
            effect: key.rule.effect,
            stages: key.rule.stages.map(<[_]>::to_vec),
        });
    });
    Table { name: name.to_owned(), doc: doc.to_owned(), keys }
}

impl Schema {
    /// The reference page, `docs/reference/pipeline-file.md`, in Markdown.
    pub fn markdown(&self) -> String {
        let mut page = String::from(INTRODUCTION);
        for table in &self.tables {
            page.push_str(&format!("\n## `{}`\n\n{}\n\n", table.name, table.doc));
            page.push_str("| key | value | default | |\n|---|---|---|---|\n");
            for key in &table.keys {
                page.push_str(&key.row());
            }
        }
        page
    }
}

const EXECUTOR: &str = "How and where stages are run. Nothing here changes a result. `kind` and all keys after it may \
stand in a table `[stages.NAME.executor]` too, for that stage alone; see [Slurm](../guides/slurm.md).";

const INTRODUCTION: &str = "\
# The pipeline file

<!-- Generated from crates/spec: `PIPELINE_UPDATE_DOCS=1 cargo test -p spec`. -->

A pipeline is a TOML file. Each `[stages.NAME]` table is a stage; a stage that names another one depends on
it. Names of keys are those of TRL, PEFT and `TrainingArguments`. Unknown keys are errors. Relative paths
start at the current directory. There are no variables; `--set stages.ppo.kl_coef=0.05` replaces a value for
one command.

Sizes may be written `\"40 GB\"` or `\"512 MiB\"`, durations `\"30s\"`, `\"5m\"` or `\"2h\"`, shares `0.05` or `\"5%\"`.

Keys marked *execution* say how a stage is run and never change what it makes; changing one makes nothing
run again. All others are part of the stage's fingerprint.
";

impl KeySchema {
    fn row(&self) -> String {
        let mut value = self.ty.clone();
        if let Some(unit) = self.unit {
            value = unit.example().to_owned();
        }
        if let Some(kinds) = &self.stages {
            let kinds = kinds.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ");
            let any = if kinds.is_empty() { String::new() } else { format!(" of kind {kinds}") };
            let what = if self.ty.contains("list") { "names of stages" } else { "name of a stage" };
            value = format!("{what}{any}");
        }
        if let Some(range) = &self.range {
            value.push_str(&format!(", {range}"));
        }
        let default = if self.required { "required".to_owned() } else { format!("`{}`", self.default) };
        let mut doc = self.doc.to_owned();
        for choice in self.choices.iter().filter(|choice| !choice.doc.is_empty()) {
            doc.push_str(&format!("<br>`{}`: {}", choice.name, choice.doc));
        }
        if self.effect == Effect::Execution {
            doc.push_str(" *execution*");
        }
        format!("| `{}` | {} | {} | {} |\n", self.name, cell(&value), cell(&default), cell(&doc))
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
