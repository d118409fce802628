//! Plain documents for language modelling.

use std::path::Path;

use spec::stage::{Format, Source};

use crate::source::{BadRows, jsonl, stackexchange_dump, synthetic_qa};
use crate::{DataError, Ledger};

/// A text to learn a language from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub id: String,
    pub text: String,
}

/// The documents of a source, in its order:
///
/// - a Stack Exchange dump: each answer under its question, and each question without an answer,
///   as `Question: …\nAnswer: …`;
/// - JSON lines: the field `text`;
/// - the synthetic world: statements of its facts and exchanges about them, `questions` of each.
///
/// Documents without text are left out. A source with none left is an error; what a bad row
/// is, `on_bad_row` says.
pub fn texts(source: &Source, seed: u64) -> Result<Vec<Document>, DataError> {
    let path = Path::new(&source.path);
    let mut ledger = Ledger::default();
    let mut bad = BadRows { policy: source.on_bad_row, ledger: &mut ledger };
    let mut documents = match source.format {
        Format::Jsonl => jsonl::documents(path, &mut bad)?,
        Format::SyntheticQa => synthetic_qa::documents(source.questions, seed)?,
        Format::StackexchangeDump => {
            stackexchange_dump::questions(path, &mut bad)?.into_iter().flat_map(exchanges).collect()
        }
    };
    documents.retain(|document| !document.text.trim().is_empty());
    if documents.is_empty() {
        return Err(DataError::Empty { path: path.into(), what: "every document is empty".into() });
    }
    Ok(documents)
}

fn exchanges(question: crate::source::Question) -> Vec<Document> {
    let crate::source::Question { id, prompt, answers, .. } = question;
    if answers.is_empty() {
        return vec![Document { id, text: format!("Question: {prompt}") }];
    }
    answers
        .into_iter()
        .map(|answer| Document {
            id: format!("{id}/{}", answer.id),
            text: format!("Question: {prompt}\nAnswer: {}", answer.text),
        })
        .collect()
}
