//! Answers of several models to the same prompts: `answers.jsonl`, joined by prompt id and never by text.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::bootstrap::wilson;
use crate::error::EvalError;
use crate::summary::{GenerateStats, GenerateSummary};

/// One prompt with every model's answer; one line of `answers.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerRow {
    /// The prompt's id.
    pub id: String,
    /// The rendered prompt.
    pub prompt: String,
    /// The preferred answer of the data set, if it has one.
    pub reference: Option<String>,
    /// By model name.
    pub answers: BTreeMap<String, Answer>,
}

/// One model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub text: String,
    /// Tokens generated, EOS included.
    pub tokens: usize,
    /// Ended by itself instead of at the length limit.
    pub finished: bool,
    /// By the data source's rule; absent where no rule can tell.
    pub correct: Option<bool>,
}

/// Reads `answers.jsonl`: ids must be unique and every row must have an answer of each model of the first
/// row, else the error lists the ids (a116).
pub fn read(path: &Path) -> Result<Vec<AnswerRow>, EvalError> {
    let rows: Vec<AnswerRow> = read_lines(path)?;
    check(&rows, &path.display().to_string())?;
    Ok(rows)
}

/// Writes `answers.jsonl`, one row per line in the order given, after the same checks as [`read`].
pub fn write(path: &Path, rows: &[AnswerRow]) -> Result<(), EvalError> {
    check(rows, &path.display().to_string())?;
    write_lines(path, rows)
}

fn check(rows: &[AnswerRow], what: &str) -> Result<(), EvalError> {
    let mut seen = BTreeSet::new();
    let twice: Vec<String> = rows.iter().filter(|r| !seen.insert(&r.id)).map(|r| r.id.clone()).collect();
    if !twice.is_empty() {
        return Err(EvalError::DuplicateIds { what: what.into(), ids: twice });
    }
    let Some(first) = rows.first() else { return Ok(()) };
    let differs = |row: &&AnswerRow| !row.answers.keys().eq(first.answers.keys());
    let missing: Vec<String> = rows.iter().filter(differs).map(|r| r.id.clone()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let models = first.answers.keys().cloned().collect::<Vec<_>>().join(", ");
    let what = format!("{what}: not answered by the same models ({models})");
    Err(EvalError::IdMismatch { what, missing, unexpected: Vec::new() })
}

/// Lengths, endings and rule-checked correctness per model.
pub fn summarise(rows: &[AnswerRow]) -> GenerateSummary {
    let models: BTreeSet<&String> = rows.iter().flat_map(|row| row.answers.keys()).collect();
    let stats = |model: &String| {
        let answers: Vec<&Answer> = rows.iter().filter_map(|row| row.answers.get(model)).collect();
        let share = |test: &dyn Fn(&Answer) -> bool| {
            answers.iter().filter(|a| test(a)).count() as f64 / answers.len() as f64
        };
        let checked: Vec<bool> = answers.iter().filter_map(|a| a.correct).collect();
        let correct = checked.iter().filter(|&&c| c).count() as f64;
        GenerateStats {
            correct_share: (!checked.is_empty()).then(|| wilson(correct, checked.len())),
            mean_tokens: answers.iter().map(|a| a.tokens as f64).sum::<f64>() / answers.len() as f64,
            finished_share: share(&|a| a.finished),
            empty_share: share(&|a| a.text.trim().is_empty()),
        }
    };
    let models = models.into_iter().map(|model| (model.clone(), stats(model))).collect();
    GenerateSummary { n: rows.len(), models }
}

/// Reads JSON lines; an error names the line.
pub(crate) fn read_lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>, EvalError> {
    let file = std::fs::File::open(path).map_err(EvalError::io(path))?;
    let mut rows = Vec::new();
    for (index, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(EvalError::io(path))?;
        let row = serde_json::from_str(&line).map_err(|e| EvalError::BadLine {
            path: path.to_path_buf(),
            line: index + 1,
            message: e.to_string(),
        })?;
        rows.push(row);
    }
    Ok(rows)
}

/// Writes JSON lines.
pub(crate) fn write_lines<T: Serialize>(path: &Path, rows: &[T]) -> Result<(), EvalError> {
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(std::fs::File::create(path)?);
        for row in rows {
            serde_json::to_writer(&mut file, row)?;
            file.write_all(b"\n")?;
        }
        file.into_inner().map_err(|e| e.into_error())?.sync_all()
    };
    write().map_err(EvalError::io(path))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn row(id: &str, answers: &[(&str, &str)]) -> AnswerRow {
        let answer = |text: &str| Answer { text: text.into(), tokens: 3, finished: true, correct: None };
        AnswerRow {
            id: id.into(),
            prompt: format!("question {id}"),
            reference: None,
            answers: answers.iter().map(|(m, t)| (m.to_string(), answer(t))).collect(),
        }
    }

    #[test]
    fn round_trips() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("answers.jsonl");
        let rows = vec![row("1", &[("a", "x\ny"), ("b", "</script>")]), row("2", &[("a", ""), ("b", "é")])];
        write(&path, &rows).unwrap();
        assert_eq!(read(&path).unwrap(), rows);
    }

    #[test]
    fn a116_mismatch_lists_the_ids() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("answers.jsonl");
        let rows = vec![row("1", &[("a", "x"), ("b", "y")]), row("q7", &[("a", "x")])];
        let error = write(&path, &rows).unwrap_err();
        assert!(error.to_string().contains("missing `q7`"), "{error}");
        let error = write(&path, &[rows[0].clone(), rows[0].clone()]).unwrap_err();
        assert!(error.to_string().contains("twice: `1`"), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn a_torn_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("answers.jsonl");
        std::fs::write(&path, "{\"id\":\"1\",\"prompt\":\"\",\"reference\":null,\"answers\":{}}\n{\"id\"")
            .unwrap();
        let error = read(&path).unwrap_err();
        assert_eq!(error.code(), "E0702");
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn summary_counts_only_checkable_answers() {
        let mut rows = vec![row("1", &[("a", "x")]), row("2", &[("a", " ")]), row("3", &[("a", "z")])];
        rows[0].answers.get_mut("a").unwrap().correct = Some(true);
        rows[1].answers.get_mut("a").unwrap().correct = Some(false);
        rows[2].answers.get_mut("a").unwrap().finished = false;
        let summary = summarise(&rows);
        let a = &summary.models["a"];
        assert_eq!(a.correct_share.unwrap().mean, 0.5);
        assert_eq!((a.correct_share.unwrap().n, summary.n, a.mean_tokens), (2, 3, 3.0));
        assert!((a.finished_share - 2.0 / 3.0).abs() < 1e-12 && (a.empty_share - 1.0 / 3.0).abs() < 1e-12);
    }
}
