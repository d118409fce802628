//! Prints the quickstart's world as JSON lines:
//! `cargo run -p data --example world -- documents|questions COUNT SEED`.

use std::io::Write;

use data::source::{Question, synthetic_qa};
use serde_json::json;
use spec::stage::{Format, Source};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_else(|| "questions".into());
    let questions: usize = arguments.next().map_or(Ok(10), |count| count.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(42), |seed| seed.parse())?;
    let mut out = std::io::stdout().lock();
    if what == "documents" {
        let source = Source { format: Format::SyntheticQa, questions, ..Source::default() };
        for document in data::texts(&source, seed)? {
            writeln!(out, "{}", json!({ "id": document.id, "text": document.text }))?;
        }
        return Ok(());
    }
    for Question { id, prompt, answers, reference, meta } in synthetic_qa::questions(questions, seed)? {
        let answers: Vec<_> = answers.iter().map(|a| json!({ "text": a.text, "score": a.score })).collect();
        let row =
            json!({ "id": id, "prompt": prompt, "answers": answers, "reference": reference, "meta": meta });
        writeln!(out, "{row}")?;
    }
    Ok(())
}
