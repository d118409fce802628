//! `pipeline run FILE`

use engine::{Control, Engine, Level, RunOutcome, Update};
use plan::{Decision, Plan};
use serde_json::json;
use store::Store;
use store::record::RunState;
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::args::{Global, Selected, Source};
use crate::failure::{Failure, exit};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::session::{Session, tell_network};
use crate::{outcome, preflight};

pub async fn run(
    source: &Source,
    selected: &Selected,
    json: bool,
    global: &Global,
    printer: &Printer,
) -> Result<u8, Failure> {
    let session = Session::open(&source.file, &source.changes, selected, global).await?;
    let decisions = session.decide().await?;
    if !decisions.iter().any(Decision::runs) {
        return up_to_date(&session, &decisions, json, printer).await;
    }
    let runs = |name: &str| decisions.iter().any(|decision| decision.stage == name && decision.runs());
    preflight::keys(&session.pipeline, runs)?;
    tell_network(&session.store, printer);
    listen(&session.engine)?;
    let (updates, receiver) = mpsc::unbounded_channel();
    let run = session.engine.run(&session.plan, &session.source, &session.forced, updates);
    let (outcome, ()) = tokio::join!(run, show(receiver, session.engine.control(), printer));
    finish(&outcome?, &session.plan, &session.store, json, printer).await
}

/// From here on, Ctrl-C and TERM stop the run rather than this process.
pub fn listen(engine: &Engine) -> Result<(), Failure> {
    engine::signals::listen(engine.control()).map_err(Failure::io("cannot listen for signals"))
}

async fn up_to_date(
    session: &Session,
    decisions: &[Decision],
    json: bool,
    printer: &Printer,
) -> Result<u8, Failure> {
    let pages = outcome::pages(&session.plan, &session.store).await?;
    if json {
        let report = pages.first();
        printer.json(&json!({ "state": "up-to-date", "stages": decisions, "report": report }));
        return Ok(exit::OK);
    }
    let report = pages.first().map(|page| format!("; report: {}", page.display())).unwrap_or_default();
    printer.line(format_args!("{}: up to date, nothing to run{report}", session.source));
    Ok(exit::OK)
}

/// Shows updates, and answers signals, until the run has ended.
pub async fn show(mut updates: UnboundedReceiver<Update>, control: Control, printer: &Printer) {
    let mut progress = Progress::new(*printer);
    let mut level = Level::Go;
    loop {
        tokio::select! {
            update = updates.recv() => match update {
                Some(update) => progress.update(update),
                None => break,
            },
            () = control.above(level) => {
                level = control.level();
                progress.stopping(level);
            }
        }
    }
    progress.finish();
}

/// Says how a run ended.
pub async fn finish(
    outcome: &RunOutcome,
    plan: &Plan,
    store: &Store,
    json: bool,
    printer: &Printer,
) -> Result<u8, Failure> {
    if json {
        let (run, stages) = (&outcome.run_id, &outcome.stages);
        let done = |kind: &str| stages.iter().any(|stage| stage.kind == kind && stage.state.is_done());
        let pages = if done("report") { outcome::pages(plan, store).await? } else { Vec::new() };
        let report = pages.first();
        printer.json(&json!({ "run_id": run, "state": outcome.state, "stages": stages, "report": report }));
    } else {
        outcome::print(outcome, plan, store, printer).await?;
    }
    let code = outcome.exit_code();
    let (run, state) = (&outcome.run_id, outcome.state);
    match state {
        RunState::Succeeded => {}
        RunState::Failed | RunState::Refused => printer.note(format_args!(
            "run {run} {state}; once the cause is mended, `pipeline resume {run} --retry-failed` goes on"
        )),
        _ => printer.note(format_args!("run {run} {state}; `pipeline resume {run}` goes on")),
    }
    Ok(code)
}
