//! `kind = "prepare"`: a raw data set becomes tokenised, split preference pairs and prompts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where raw data comes from and in which form; shared by `prepare` and `pretrain`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Source {
    pub format: Format,
    /// File or folder; empty for `synthetic-qa`, which is generated.
    pub path: String,
    /// `synthetic-qa` only: number of questions in the world.
    pub questions: usize,
}

impl Default for Source {
    fn default() -> Self {
        Self { format: Format::Jsonl, path: String::new(), questions: 2000 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// The official dump's `Posts.xml`.
    StackexchangeDump,
    /// JSON lines with `prompt`, `chosen`, `rejected` (pairs) or `text` (pretraining).
    Jsonl,
    /// The generated question-answering world of the quickstart.
    SyntheticQa,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Prepare {
    #[serde(flatten)]
    pub source: Source,
    /// Stage whose tokenizer is used; empty = `[model] base`.
    pub model: String,
    /// `{prompt}` stands for the prompt's text.
    pub prompt_template: String,
    /// Tokens; longer prompts are dropped and counted.
    pub max_prompt_length: usize,
    /// Tokens, EOS included; pairs with a longer response are dropped and counted.
    pub max_response_length: usize,
    pub max_pairs_per_question: usize,
    /// Split name → relative share of the questions. A question is in exactly one split.
    pub split: BTreeMap<String, f64>,
    /// Questions held out as split `eval` before the others are shared out.
    pub eval: usize,
    pub on_bad_row: OnBadRow,
}

impl Default for Prepare {
    fn default() -> Self {
        Self {
            source: Source::default(),
            model: String::new(),
            prompt_template: "Question: {prompt}\nAnswer:".into(),
            max_prompt_length: 400,
            max_response_length: 400,
            max_pairs_per_question: 10,
            split: BTreeMap::from([("sft".into(), 6.0), ("ppo".into(), 4.0)]),
            eval: 500,
            on_bad_row: OnBadRow::Error,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBadRow {
    /// Count it and go on.
    Skip,
    /// Stop and name file and row.
    Error,
}
