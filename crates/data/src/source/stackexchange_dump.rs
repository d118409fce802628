//! `format = "stackexchange-dump"`: the `Posts.xml` of the official Stack Exchange dumps.
//!
//! `<row Id PostTypeId ParentId AcceptedAnswerId Score Title Body … />`, where `PostTypeId` 1 is a
//! question, 2 an answer, and everything else (wiki and tag texts) is not ours. Bodies are HTML and become
//! Markdown. Rows are read as a stream; questions and answers are joined at the end, since an answer may
//! come before its question.
//!
//! The score is that of `HuggingFaceH4/stack-exchange-preferences`: round(log2(1 + votes)), −1 for negative
//! votes, and one more for the accepted answer.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::html::ToMarkdown;
use super::{Answer, BadRows, Question};
use crate::{DataError, Reason};

const MARK: &[u8] = b"\xef\xbb\xbf";

/// The preference score of an answer.
pub fn score(votes: i64, accepted: bool) -> i64 {
    let score = if votes < 0 { -1 } else { (votes as f64 + 1.0).log2().round() as i64 };
    score + i64::from(accepted)
}

/// A row that is a question or an answer.
#[derive(Debug, PartialEq)]
enum Post {
    Question { id: String, accepted: Option<String>, title: String, body: String },
    Answer { id: String, parent: String, votes: i64, body: String },
}

/// Reads every question with its answers, questions in the order of the file, answers too.
pub(crate) fn questions(path: &Path, bad: &mut BadRows<'_>) -> Result<Vec<Question>, DataError> {
    let file = File::open(path).map_err(DataError::read(path))?;
    let mut join = Join::default();
    let rows = each_row(BufReader::with_capacity(1 << 16, file), path, |number, row| {
        match post(&row) {
            Ok(Some(post)) => join
                .add(post)
                .or_else(|(id, problem)| bad.found(path, format!("row {number} (Id {id})"), problem)),
            Ok(None) => Ok(()),
            Err((id, problem)) => {
                let id = id.map(|id| format!(" (Id {id})")).unwrap_or_default();
                bad.found(path, format!("row {number}{id}"), problem)
            }
        }
        .map(|()| true)
    })?;
    if join.questions.is_empty() {
        return Err(DataError::Empty {
            path: path.into(),
            what: format!("no question among its {rows} rows"),
        });
    }
    Ok(join.finish(bad))
}

/// Checks that the file begins like a dump and that its first row can be read.
pub(crate) fn validate(path: &Path) -> Result<(), DataError> {
    let file = File::open(path).map_err(DataError::read(path))?;
    let rows = each_row(BufReader::new(file), path, |_, _| Ok(false))?;
    if rows == 0 {
        return Err(DataError::Empty { path: path.into(), what: "there is no `<row>` in it".into() });
    }
    Ok(())
}

/// Calls `visit` with the number (from 1) and the element of each `<row>` until it says `false`; gives the
/// number of rows seen.
fn each_row(
    mut input: impl BufRead,
    path: &Path,
    mut visit: impl FnMut(usize, BytesStart<'_>) -> Result<bool, DataError>,
) -> Result<usize, DataError> {
    // The reader would skip a byte-order mark without counting it.
    let marked = input.fill_buf().map_err(DataError::read(path))?.starts_with(MARK);
    let mark = if marked { MARK.len() } else { 0 };
    input.consume(mark);
    let mark = mark as u64;
    let mut reader = Reader::from_reader(input);
    let mut buffer = Vec::new();
    let (mut root, mut rows) = (false, 0);
    let not_a_dump = |found: String| DataError::NotADump { path: path.into(), found };
    loop {
        buffer.clear();
        let event = match reader.read_event_into(&mut buffer) {
            Ok(event) => event,
            Err(error) if root => {
                let byte = mark + reader.error_position();
                return Err(DataError::Damaged { path: path.into(), byte, problem: error.to_string() });
            }
            Err(error) => return Err(not_a_dump(format!("it is no XML ({error})"))),
        };
        match event {
            Event::Start(element) if !root && element.name().as_ref() == "posts" => root = true,
            Event::Empty(element) if !root && element.name().as_ref() == "posts" => return Ok(0),
            Event::Start(element) | Event::Empty(element) if !root => {
                return Err(not_a_dump(format!("its root is `<{}>`", element.name().as_ref())));
            }
            Event::Empty(element) | Event::Start(element) if element.name().as_ref() == "row" => {
                rows += 1;
                if !visit(rows, element)? {
                    return Ok(rows);
                }
            }
            Event::End(element) if element.name().as_ref() == "posts" => return Ok(rows),
            Event::Text(text) if !root && !text.as_ref().trim_ascii().is_empty() => {
                return Err(not_a_dump("it is no XML".into()));
            }
            Event::Eof if root => {
                let byte = mark + reader.buffer_position();
                let problem = "it ends before `</posts>`".into();
                return Err(DataError::Damaged { path: path.into(), byte, problem });
            }
            Event::Eof => return Err(not_a_dump("it is empty or no XML".into())),
            _ => {}
        }
    }
}

/// A row's post, `None` for kinds of posts that are not used; otherwise its id, if known, and what is wrong.
fn post(row: &BytesStart<'_>) -> Result<Option<Post>, (Option<String>, String)> {
    let (mut kind, mut id, mut parent, mut accepted) = (None, None, None, None);
    let (mut votes, mut title, mut body) = (None, None, None);
    for attribute in row.attributes() {
        let attribute = attribute.map_err(|error| (id.clone(), error.to_string()))?;
        let slot = match attribute.key.as_ref() {
            "Id" => &mut id,
            "PostTypeId" => &mut kind,
            "ParentId" => &mut parent,
            "AcceptedAnswerId" => &mut accepted,
            "Score" => &mut votes,
            "Title" => &mut title,
            "Body" => &mut body,
            _ => continue,
        };
        match attribute.normalized_value(XmlVersion::Implicit1_0) {
            Ok(value) => *slot = Some(value.into_owned()),
            Err(error) => {
                let key = attribute.key.as_ref();
                return Err((id, format!("attribute `{key}`: {error}")));
            }
        }
    }
    let known = id.clone();
    let need = |value: Option<String>, name: &str| {
        value.ok_or_else(|| (known.clone(), format!("there is no `{name}`")))
    };
    match need(kind, "PostTypeId")?.as_str() {
        "1" => Ok(Some(Post::Question {
            id: need(id, "Id")?,
            accepted,
            title: need(title, "Title")?,
            body: need(body, "Body")?,
        })),
        "2" => {
            let votes = need(votes, "Score")?;
            Ok(Some(Post::Answer {
                id: need(id, "Id")?,
                parent: need(parent, "ParentId")?,
                votes: votes
                    .trim()
                    .parse()
                    .map_err(|_| (known.clone(), format!("`Score` is `{votes}`, not a whole number")))?,
                body: need(body, "Body")?,
            }))
        }
        _ => Ok(None),
    }
}

/// Brings answers to their questions.
#[derive(Default)]
struct Join {
    to_markdown: ToMarkdown,
    questions: Vec<(Question, Option<String>)>,
    by_id: HashMap<String, usize>,
    answers: Vec<(String, String, i64, String)>,
}

impl Join {
    fn add(&mut self, post: Post) -> Result<(), (String, String)> {
        match post {
            Post::Question { id, accepted, title, body } => {
                if self.by_id.contains_key(&id) {
                    return Err((id, "a question with this Id came before".into()));
                }
                let body = self.markdown(&id, &body)?;
                let prompt = format!("{}\n\n{body}", title.trim());
                self.by_id.insert(id.clone(), self.questions.len());
                let question = Question { id, prompt: prompt.trim().into(), ..Question::default() };
                self.questions.push((question, accepted));
            }
            Post::Answer { id, parent, votes, body } => {
                let body = self.markdown(&id, &body)?;
                self.answers.push((id, parent, votes, body));
            }
        }
        Ok(())
    }

    fn markdown(&self, id: &str, html: &str) -> Result<String, (String, String)> {
        self.to_markdown.convert(html).map_err(|error| (id.to_owned(), format!("`Body`: {error}")))
    }

    fn finish(mut self, bad: &mut BadRows<'_>) -> Vec<Question> {
        for (id, parent, votes, text) in self.answers {
            let Some(&at) = self.by_id.get(&parent) else {
                bad.ledger.drop(Reason::OrphanAnswer, id);
                continue;
            };
            let (question, accepted) = &mut self.questions[at];
            let score = score(votes, accepted.as_ref() == Some(&id));
            question.answers.push(Answer { id, text, score });
        }
        self.questions.into_iter().map(|(question, _)| question).collect()
    }
}
