//! `kind = "prepare"`: a raw data set becomes tokenised, split preference pairs and prompts.

use std::collections::BTreeMap;

use crate::section::{choice, section};

section! {
    /// Where raw data comes from and in which form; shared by `prepare` and `pretrain`.
    pub struct Source {
        /// The form of the data.
        pub format: Format = Format::Jsonl,
        /// File or folder; none for `synthetic-qa`, which is generated.
        pub path: String = String::new(),
        /// `synthetic-qa` only: number of questions in the world.
        pub questions: usize = 2000 => at_least(1.0),
        /// What happens to a row that cannot be read.
        pub on_bad_row: OnBadRow = OnBadRow::Error,
    }
}

choice! {
    /// The form of raw data.
    pub enum Format {
        /// The official dump's `Posts.xml`.
        StackexchangeDump = "stackexchange-dump",
        /// JSON lines with `prompt`, `chosen`, `rejected` (pairs) or `text` (pretraining).
        Jsonl = "jsonl",
        /// The generated question-answering world of the quickstart.
        SyntheticQa = "synthetic-qa",
    }
}

section! {
    /// `kind = "prepare"`
    pub struct Prepare {
        /// Stage whose tokenizer is used; empty = `[model] base`.
        pub model: String = String::new() => stage(&["pretrain", "sft", "reward", "hydra-sft"]),
        /// `{prompt}` stands for the prompt's text.
        pub prompt_template: String = "Question: {prompt}\nAnswer:".into() => free_text(),
        /// Tokens; longer prompts are dropped and counted.
        pub max_prompt_length: usize = 400 => at_least(1.0),
        /// Tokens, EOS included; pairs with a longer response are dropped and counted.
        pub max_response_length: usize = 400 => at_least(1.0),
        /// Pairs made of one question at most.
        pub max_pairs_per_question: usize = 10 => at_least(1.0),
        /// Split name → relative share of the questions. A question is in exactly one split.
        pub split: BTreeMap<String, f64> = BTreeMap::from([("sft".into(), 6.0), ("ppo".into(), 4.0)]) => above(0.0),
        /// Questions held out as split `eval` before the others are shared out.
        pub eval: usize = 500,
    }
    flatten {
        pub source: Source,
    }
}

choice! {
    /// What happens to a row that cannot be read.
    pub enum OnBadRow {
        /// Count it and go on.
        Skip = "skip",
        /// Stop and name file and row.
        Error = "error",
    }
}

impl Prepare {
    /// Names of the splits it makes.
    pub fn splits(&self) -> Vec<&str> {
        let mut splits: Vec<_> = self.split.keys().map(String::as_str).collect();
        if self.eval > 0 && !splits.contains(&"eval") {
            splits.push("eval");
        }
        splits
    }
}
