//! Prepared data on disk: `<split>.pairs.jsonl`, `<split>.prompts.jsonl`, `card.json` and the tokenizer.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Card, DataError};

/// What a source knows about a question besides its text, such as `{"answer": "cat"}`, from which
/// [`crate::source::synthetic_qa::check`] judges an answer by rule.
pub type Meta = serde_json::Map<String, serde_json::Value>;

/// Two responses to one prompt, the better one known. `prompt` + `chosen` is the whole text, and
/// `prompt_ids` + `chosen_ids` are its token ids: nothing is added or cut between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    pub id: String,
    /// Id of the question's group: no group has members in two splits.
    pub question: String,
    /// The prompt with the template around it.
    pub prompt: String,
    /// The better response. It begins with the space that separates it from the prompt, if one does.
    pub chosen: String,
    pub rejected: String,
    /// Begins with BOS if the tokenizer has one.
    pub prompt_ids: Vec<u32>,
    /// Ends with EOS, as `rejected_ids` does.
    pub chosen_ids: Vec<u32>,
    pub rejected_ids: Vec<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// A prompt to answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    pub id: String,
    /// The prompt with the template around it.
    pub prompt: String,
    /// Begins with BOS if the tokenizer has one.
    pub prompt_ids: Vec<u32>,
    /// The best response known, in the form of [`Pair::chosen`].
    pub reference: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// A folder written by [`crate::prepare`].
#[derive(Debug, Clone)]
pub struct PreparedData {
    dir: PathBuf,
    card: Card,
}

impl PreparedData {
    /// Opens a folder by its `card.json`, which is written last.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, DataError> {
        let dir = dir.as_ref().to_path_buf();
        let path = dir.join(CARD);
        let text = std::fs::read_to_string(&path).map_err(DataError::read(&path))?;
        let card = serde_json::from_str(&text)
            .map_err(|error| DataError::NotPrepared { path, problem: error.to_string() })?;
        Ok(Self { dir, card })
    }

    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Names of the splits, in alphabetical order.
    pub fn splits(&self) -> impl Iterator<Item = &str> {
        self.card.splits.keys().map(String::as_str)
    }

    /// Preference pairs of a split; there may be none.
    pub fn pairs(&self, split: &str) -> Result<Vec<Pair>, DataError> {
        self.rows(split, "pairs")
    }

    /// Every question of a split, those without a pair too.
    pub fn prompts(&self, split: &str) -> Result<Vec<Prompt>, DataError> {
        self.rows(split, "prompts")
    }

    fn rows<T: DeserializeOwned>(&self, split: &str, what: &str) -> Result<Vec<T>, DataError> {
        if !self.card.splits.contains_key(split) {
            let known: Vec<&str> = self.splits().collect();
            return Err(DataError::Split {
                problem: format!("there is no split `{split}` in `{}`", self.dir.display()),
                help: format!("the splits are: {}", known.join(", ")),
            });
        }
        read_lines(&rows_path(&self.dir, split, what))
    }
}

const CARD: &str = "card.json";

fn rows_path(dir: &Path, split: &str, what: &str) -> PathBuf {
    dir.join(format!("{split}.{what}.jsonl"))
}

fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, DataError> {
    let file = File::open(path).map_err(DataError::read(path))?;
    let mut rows = Vec::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(DataError::read(path))?;
        rows.push(serde_json::from_str(&line).map_err(|error| DataError::NotPrepared {
            path: path.into(),
            problem: format!("line {}: {error}", number + 1),
        })?);
    }
    Ok(rows)
}

pub(crate) fn write_split(
    dir: &Path,
    split: &str,
    pairs: &[Pair],
    prompts: &[Prompt],
) -> Result<(), DataError> {
    write_lines(&rows_path(dir, split, "pairs"), pairs)?;
    write_lines(&rows_path(dir, split, "prompts"), prompts)
}

fn write_lines<T: Serialize>(path: &Path, rows: &[T]) -> Result<(), DataError> {
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for row in rows {
            serde_json::to_writer(&mut file, row)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    };
    write().map_err(DataError::write(path))
}

pub(crate) fn write_card(dir: &Path, card: &Card) -> Result<(), DataError> {
    let path = dir.join(CARD);
    let write = || -> std::io::Result<()> {
        let mut text = serde_json::to_string_pretty(card)?;
        text.push('\n');
        std::fs::write(&path, text)
    };
    write().map_err(DataError::write(&path))
}
