//! One file per format. Each turns its rows into [`Question`]s, or into plain documents.

pub mod html;
pub mod jsonl;
pub mod stackexchange_dump;
pub mod synthetic_qa;

use std::path::Path;

use spec::stage::{Format, OnBadRow, Source};

use crate::{DataError, Ledger, Meta, Reason};

/// A question with what people answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Question {
    pub id: String,
    pub prompt: String,
    pub answers: Vec<Answer>,
    /// The answer to compare with, if the source knows better than "the one with the best score".
    pub reference: Option<String>,
    pub meta: Option<Meta>,
}

/// One answer; a higher score is preferred, equal scores are not comparable.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub id: String,
    pub text: String,
    pub score: i64,
}

/// What to do with rows that are not what their format says, and the count of those skipped.
pub(crate) struct BadRows<'a> {
    pub policy: OnBadRow,
    pub ledger: &'a mut Ledger,
}

impl BadRows<'_> {
    /// Counts the row, or gives the error that names it.
    pub fn found(&mut self, path: &Path, row: String, problem: impl Into<String>) -> Result<(), DataError> {
        match self.policy {
            OnBadRow::Skip => {
                self.ledger.drop(Reason::BadRow, row);
                Ok(())
            }
            OnBadRow::Error => Err(DataError::BadRow { path: path.into(), row, problem: problem.into() }),
        }
    }
}

/// The questions of a source in its order, and what was left out on the way.
pub fn read(source: &Source, seed: u64) -> Result<(Vec<Question>, Ledger), DataError> {
    let path = Path::new(&source.path);
    let mut ledger = Ledger::default();
    let mut bad = BadRows { policy: source.on_bad_row, ledger: &mut ledger };
    let questions = match source.format {
        Format::StackexchangeDump => stackexchange_dump::questions(path, &mut bad),
        Format::Jsonl => jsonl::questions(path, &mut bad),
        Format::SyntheticQa => synthetic_qa::questions(source.questions, seed),
    }?;
    Ok((questions, ledger))
}
