//! `pipeline validate FILE`: the file, and the files and folders it names.

use serde_json::{Value, json};
use spec::Mistake;

use crate::args::Source;
use crate::failure::{Failure, exit};
use crate::printer::Printer;
use crate::{load, preflight};

pub fn validate(source: &Source, json: bool, printer: &Printer) -> Result<u8, Failure> {
    let checked = load::pipeline(&source.file, &source.changes)
        .and_then(|pipeline| preflight::check(&pipeline).map(|()| pipeline));
    match checked {
        Ok(pipeline) if json => {
            let names: Vec<_> = pipeline.stages.iter().map(|stage| &stage.name).collect();
            printer.json(&json!({ "ok": true, "stages": names, "mistakes": [] }));
            Ok(exit::OK)
        }
        Ok(pipeline) => {
            let count = pipeline.stages.len();
            let stages = if count == 1 { "stage" } else { "stages" };
            printer.line(format_args!("{}: ok, {count} {stages}", source.file.display()));
            Ok(exit::OK)
        }
        Err(failure) if json && !failure.mistakes().is_empty() => {
            let mistakes: Vec<_> = failure.mistakes().iter().map(as_json).collect();
            printer.json(&json!({ "ok": false, "mistakes": mistakes }));
            Ok(failure.exit_code())
        }
        Err(failure) => Err(failure),
    }
}

fn as_json(mistake: &Mistake) -> Value {
    let mut value = json!({
        "code": mistake.problem.code(),
        "message": mistake.to_string(),
        "help": mistake.problem.help(),
    });
    if let Some((file, line, column)) = mistake.place() {
        value["file"] = file.into();
        value["line"] = line.into();
        value["column"] = column.into();
    }
    value
}
