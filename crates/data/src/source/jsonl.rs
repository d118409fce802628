//! `format = "jsonl"`: one JSON object per line, with `prompt`, `chosen` and `rejected` (preferences) or
//! `text` (documents); an `id` and a `meta` object may come along, other fields are ignored.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Map, Value};

use super::{Answer, BadRows, Question};
use crate::{DataError, Document};

/// Reads one question with two answers per line.
pub(crate) fn questions(path: &Path, bad: &mut BadRows<'_>) -> Result<Vec<Question>, DataError> {
    let mut questions = Vec::new();
    each_row(path, bad, |id, mut row| {
        questions.push(question(id, &mut row)?);
        Ok(true)
    })?;
    Ok(questions)
}

/// Reads one document per line.
pub(crate) fn documents(path: &Path, bad: &mut BadRows<'_>) -> Result<Vec<Document>, DataError> {
    let mut documents = Vec::new();
    each_row(path, bad, |id, mut row| {
        documents.push(Document { id, text: text(&mut row, "text")? });
        Ok(true)
    })?;
    Ok(documents)
}

/// Checks that the file can be read and that its first row has one of the two forms.
pub(crate) fn validate(path: &Path, bad: &mut BadRows<'_>) -> Result<(), DataError> {
    each_row(path, bad, |id, mut row| {
        if row.contains_key("text") {
            text(&mut row, "text")?;
        } else {
            question(id, &mut row)?;
        }
        Ok(false)
    })
}

fn question(id: String, row: &mut Map<String, Value>) -> Result<Question, String> {
    let prompt = text(row, "prompt")?;
    let chosen = Answer { id: "chosen".into(), text: text(row, "chosen")?, score: 1 };
    let rejected = Answer { id: "rejected".into(), text: text(row, "rejected")?, score: 0 };
    let meta = match row.remove("meta") {
        None | Some(Value::Null) => None,
        Some(Value::Object(meta)) => Some(meta),
        Some(other) => return Err(format!("`meta` is {}, not an object", kind(&other))),
    };
    Ok(Question { id, prompt, answers: vec![chosen, rejected], reference: None, meta })
}

/// A field that must be text.
fn text(row: &mut Map<String, Value>, field: &str) -> Result<String, String> {
    match row.remove(field) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(format!("`{field}` is {}, not text", kind(&other))),
        None => Err(format!("there is no `{field}`{}", present(row))),
    }
}

fn present(row: &Map<String, Value>) -> String {
    let names: Vec<&str> = row.keys().take(8).map(String::as_str).collect();
    if names.is_empty() { String::new() } else { format!(" (there is {})", names.join(", ")) }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Calls `visit` with the id and the object of every line until it says `false`. Blank lines are passed
/// over; a byte-order mark and CRLF are no part of a row. A file without any row is an error.
fn each_row(
    path: &Path,
    bad: &mut BadRows<'_>,
    mut visit: impl FnMut(String, Map<String, Value>) -> Result<bool, String>,
) -> Result<(), DataError> {
    let mut input = BufReader::new(File::open(path).map_err(DataError::read(path))?);
    let (mut line, mut number, mut rows) = (Vec::new(), 0usize, 0usize);
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).map_err(DataError::read(path))? == 0 {
            break;
        }
        number += 1;
        let bytes = if number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line) } else { &line };
        let bytes = bytes.trim_ascii();
        if bytes.is_empty() {
            continue;
        }
        rows += 1;
        match parse(bytes, number).and_then(|(id, row)| visit(id, row)) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(problem) => bad.found(path, format!("line {number}"), problem)?,
        }
    }
    if rows == 0 {
        return Err(DataError::Empty { path: path.into(), what: "there is no line in it".into() });
    }
    Ok(())
}

/// A line's object and its id: the field `id` if it is text or a number, else the number of the line.
fn parse(bytes: &[u8], number: usize) -> Result<(String, Map<String, Value>), String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("byte {} of the line is no UTF-8", error.valid_up_to() + 1))?;
    let row = match serde_json::from_str(text).map_err(|error| error.to_string())? {
        Value::Object(row) => row,
        other => return Err(format!("the line is {}, not an object", kind(&other))),
    };
    let id = match row.get("id") {
        Some(Value::String(id)) if !id.is_empty() => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => format!("line-{number}"),
    };
    Ok((id, row))
}
