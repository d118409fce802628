//! `pipeline explain STAGE`: what a result depends on, then and now.

use std::path::Path;

use engine::view;
use plan::PlannedStage;
use store::record::Artifact;

use crate::args::{Changes, Global, Selected};
use crate::failure::{Failure, exit};
use crate::printer::Printer;
use crate::session::Session;
use crate::{format, load};

pub async fn explain(
    name: &str,
    file: Option<&Path>,
    set: &Changes,
    json: bool,
    global: &Global,
    printer: &Printer,
) -> Result<u8, Failure> {
    let file = load::file_or_latest(file, global).await?;
    let session = Session::look(&file, set, &Selected::default(), global).await?;
    let stage = session.stage(name)?;
    let explanation = view::explain(&session.store, &session.plan, name).await?;
    if json {
        printer.json(&explanation);
        return Ok(exit::OK);
    }
    printer.line(format_args!("{name} ({}), fingerprint {}", stage.kind, stage.fingerprint.short()));
    match super::plan::words(&explanation.decision) {
        ("run", why) => printer.line(format_args!("will run: {why}")),
        _ => printer.line("up to date"),
    }
    match &explanation.last {
        Some(last) if explanation.decision.runs() && !explanation.changes.is_empty() => {
            printer.line(format_args!("\nsince its last success, {}:", origin(last)));
            for change in &explanation.changes {
                printer.line(format_args!("  {change}"));
            }
        }
        Some(_) if !explanation.decision.runs() => {
            printer.line("\nits result depends on:");
            list(stage, printer);
        }
        _ => {
            printer.line("\nits result will depend on:");
            list(stage, printer);
        }
    }
    Ok(exit::OK)
}

fn origin(artifact: &Artifact) -> String {
    format!("made {} by run {}", format::ago(artifact.created_at, store::id::now_ms()), artifact.run_id)
}

fn list(stage: &PlannedStage, printer: &Printer) {
    for (part, value) in stage.parts.iter() {
        let hash = part.starts_with("input.") || part.starts_with("file.");
        printer
            .line(format_args!("  {part} = {}", if hash { value.get(..16).unwrap_or(value) } else { value }));
    }
}
