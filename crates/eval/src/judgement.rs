//! One verdict of a judge, the file of all of them, and the journal that is appended to on the way.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::answers::{read_lines, write_lines};
use crate::error::EvalError;

/// Which answer the judge was shown first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// `model_a`'s.
    Ab,
    /// `model_b`'s.
    Ba,
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// There is a verdict.
    Ok,
    /// The judge answered, without a verdict that the strict parser takes.
    Unparsable,
    /// The judge declined.
    Refused,
    /// No answer after all attempts.
    Error,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unparsable => "unparsable",
            Self::Refused => "refused",
            Self::Error => "error",
        }
    }
}

/// Which answer is better. In a [`Judgement`], `A` is always `model_a`, whatever order was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    A,
    B,
    #[serde(rename = "tie")]
    Tie,
}

impl Verdict {
    /// Un-swaps a verdict on the shown order.
    pub fn unswapped(self, order: Order) -> Self {
        match (order, self) {
            (Order::Ba, Self::A) => Self::B,
            (Order::Ba, Self::B) => Self::A,
            (_, verdict) => verdict,
        }
    }

    /// 1, ½ or 0 points for `model_a`.
    pub fn points(self) -> f64 {
        match self {
            Self::A => 1.0,
            Self::B => 0.0,
            Self::Tie => 0.5,
        }
    }
}

/// What is judged: a prompt, two models, and which answer comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub id: String,
    pub model_a: String,
    pub model_b: String,
    pub order: Order,
}

/// One line of `judgements.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The prompt's id.
    pub id: String,
    pub model_a: String,
    pub model_b: String,
    pub order: Order,
    pub state: State,
    /// Present exactly when `state` is `ok`.
    pub verdict: Option<Verdict>,
    /// Reward of each answer, from a reward model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_a: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_b: Option<f64>,
    /// The judge's own words, or what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// BLAKE3 of everything that was asked: model, parameters, messages. Empty offline.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// Tokens over all attempts, as the endpoint counted them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prompt_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub completion_tokens: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Judgement {
    pub fn key(&self) -> Key {
        Key {
            id: self.id.clone(),
            model_a: self.model_a.clone(),
            model_b: self.model_b.clone(),
            order: self.order,
        }
    }

    /// The verdict of a valid judgement. Nothing else is ever a win, a loss or a tie (a112, a113).
    pub fn valid(&self) -> Option<Verdict> {
        self.verdict.filter(|_| self.state == State::Ok)
    }
}

/// Reads `judgements.jsonl`.
pub fn read(path: &Path) -> Result<Vec<Judgement>, EvalError> {
    read_lines(path)
}

/// Writes `judgements.jsonl` sorted by key, so that the order in which answers came in leaves no trace.
pub fn write(path: &Path, judgements: &[Judgement]) -> Result<(), EvalError> {
    let mut sorted: Vec<&Judgement> = judgements.iter().collect();
    sorted.sort_by_cached_key(|judgement| judgement.key());
    write_lines(path, &sorted)
}

/// Finished judgements, appended one by one and flushed, so that a killed stage asks nothing twice.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    latest: BTreeMap<Key, Judgement>,
}

impl Journal {
    /// Opens or creates the journal. A last line torn by a crash is cut off; later lines of the same key
    /// replace earlier ones (a failure that was asked again).
    pub fn open(path: &Path) -> Result<Self, EvalError> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(EvalError::io(path)(e)),
        };
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let mut latest = BTreeMap::new();
        for (index, line) in text[..whole].split_inclusive(|&byte| byte == b'\n').enumerate() {
            let judgement: Judgement = serde_json::from_slice(line).map_err(|e| EvalError::BadLine {
                path: path.to_path_buf(),
                line: index + 1,
                message: e.to_string(),
            })?;
            latest.insert(judgement.key(), judgement);
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(EvalError::io(path))?;
        file.set_len(whole as u64).map_err(EvalError::io(path))?;
        Ok(Self { path: path.to_path_buf(), file, latest })
    }

    /// Appends one judgement and hands it to the operating system. It takes over the tokens of the one
    /// that it replaces, so that their sum stays what was paid for.
    pub fn append(&mut self, mut judgement: Judgement) -> Result<(), EvalError> {
        if let Some(replaced) = self.latest.get(&judgement.key()) {
            judgement.prompt_tokens += replaced.prompt_tokens;
            judgement.completion_tokens += replaced.completion_tokens;
        }
        let mut line = serde_json::to_vec(&judgement)
            .map_err(|e| EvalError::io(&self.path)(std::io::Error::other(e)))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(EvalError::io(&self.path))?;
        self.latest.insert(judgement.key(), judgement);
        Ok(())
    }

    /// The latest judgement of each key, in key order.
    pub fn latest(&self) -> impl Iterator<Item = &Judgement> {
        self.latest.values()
    }

    pub fn get(&self, key: &Key) -> Option<&Judgement> {
        self.latest.get(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn judgement(id: &str, order: Order, state: State, verdict: Option<Verdict>) -> Judgement {
        Judgement {
            id: id.into(),
            model_a: "sft".into(),
            model_b: "ppo".into(),
            order,
            state,
            verdict,
            score_a: None,
            score_b: None,
            reason: None,
            request: String::new(),
            prompt_tokens: 0,
            completion_tokens: 0,
        }
    }

    #[test]
    fn journal_survives_a_torn_line_and_keeps_the_latest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let failed = judgement("1", Order::Ab, State::Error, None);
        let done = judgement("1", Order::Ab, State::Ok, Some(Verdict::B));
        let mut journal = Journal::open(&path).unwrap();
        journal.append(failed).unwrap();
        journal.append(done.clone()).unwrap();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for cut in 1..60 {
            std::fs::write(&path, [whole.clone(), whole[..cut].to_vec()].concat()).unwrap();
            let mut journal = Journal::open(&path).unwrap();
            assert_eq!(journal.latest().collect::<Vec<_>>(), [&done]);
            journal.append(judgement("2", Order::Ba, State::Ok, Some(Verdict::Tie))).unwrap();
            assert_eq!(Journal::open(&path).unwrap().latest().count(), 2);
        }
    }

    #[test]
    fn file_order_does_not_depend_on_arrival() {
        let dir = tempfile::tempdir().unwrap();
        let all = [
            judgement("2", Order::Ba, State::Ok, Some(Verdict::A)),
            judgement("10", Order::Ab, State::Refused, None),
            judgement("2", Order::Ab, State::Ok, Some(Verdict::Tie)),
        ];
        let (one, two) = (dir.path().join("1"), dir.path().join("2"));
        write(&one, &all).unwrap();
        let reversed: Vec<_> = all.iter().rev().cloned().collect();
        write(&two, &reversed).unwrap();
        assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&two).unwrap());
        let line = std::fs::read_to_string(&one).unwrap();
        assert!(line.starts_with(
            r#"{"id":"10","model_a":"sft","model_b":"ppo","order":"ab","state":"refused","verdict":null}"#
        ));
    }
}
