//! `pipeline plan [FILE]`: what `run` would run, and why.

use plan::{Action, Decision};
use serde_json::json;

use crate::args::{Global, OptionalSource, Selected};
use crate::failure::{Failure, exit};
use crate::load;
use crate::printer::Printer;
use crate::session::Session;

pub async fn plan(
    source: &OptionalSource,
    selected: &Selected,
    json: bool,
    global: &Global,
    printer: &Printer,
) -> Result<u8, Failure> {
    let file = load::file_or_latest(source.file.as_deref(), global).await?;
    let session = Session::look(&file, &source.changes, selected, global).await?;
    let decisions = session.decide().await?;
    if json {
        printer.json(&json!({ "plan": session.plan, "decisions": decisions }));
        return Ok(exit::OK);
    }
    let rows = session.plan.stages.iter().zip(&decisions).map(|(stage, decision)| {
        let (action, why) = words(decision);
        let fingerprint = stage.fingerprint.short().to_owned();
        vec![stage.name.clone(), stage.kind.clone(), fingerprint, printer.state(action), why]
    });
    printer.table(&["stage", "kind", "fingerprint", "action", "why"], &[], rows.collect());
    let running = decisions.iter().filter(|decision| decision.runs()).count();
    printer.note(format_args!("{running} of {} stages to run", decisions.len()));
    Ok(exit::OK)
}

/// What happens to a stage, and the reasons.
pub fn words(decision: &Decision) -> (&'static str, String) {
    match &decision.action {
        Action::Cached => ("cached", String::new()),
        Action::Run { reasons } => {
            let reasons: Vec<_> = reasons.iter().map(ToString::to_string).collect();
            ("run", reasons.join("; "))
        }
    }
}
