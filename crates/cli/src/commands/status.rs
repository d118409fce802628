//! `pipeline status [RUN]`

use engine::view::{self, RunView, StageView};
use store::Store;
use store::record::{Run, RunState, StageState};

use crate::args::Global;
use crate::failure::{Failure, exit};
use crate::format;
use crate::printer::Printer;

pub async fn status(
    run: Option<&str>,
    json: bool,
    global: &Global,
    printer: &Printer,
) -> Result<u8, Failure> {
    let store = Store::open_existing(&global.state_dir).await?;
    let view = view::run_view(&store, run).await?.ok_or_else(no_runs)?;
    if json {
        printer.json(&view);
        return Ok(exit::OK);
    }
    show(&view, printer);
    Ok(exit::OK)
}

/// Where a run is asked for and there is none.
pub fn no_runs() -> Failure {
    Failure::usage("there are no runs yet", "`pipeline run FILE` starts one")
}

fn show(RunView { run, stages }: &RunView, printer: &Printer) {
    let ago = format::ago(run.created_at, store::id::now_ms());
    let state = printer.state(run.state.as_str());
    printer.line(format_args!("{} ({}): {state}, started {ago}", run.id, run.source));
    if run.state == RunState::Interrupted {
        printer.line(format_args!("its process is gone; `pipeline resume {}` goes on", run.id));
    }
    printer.line("");
    let rows = stages.iter().map(|view| {
        let attempts = view.attempts.len();
        vec![
            view.stage.name.clone(),
            view.stage.kind.clone(),
            printer.state(shown_state(run, view)),
            time(view),
            if attempts > 0 { attempts.to_string() } else { String::new() },
            remark(view),
        ]
    });
    printer.table(&["stage", "kind", "state", "time", "attempts", ""], &[3, 4], rows.collect());
}

/// A stage that the database has as running may not be, once its run's process is gone.
fn shown_state(run: &Run, view: &StageView) -> &'static str {
    match (run.state, view.stage.state) {
        (RunState::Interrupted, StageState::Running) => RunState::Interrupted.as_str(),
        (_, state) => state.as_str(),
    }
}

fn time(view: &StageView) -> String {
    match (&view.artifact, view.stage.started_at, view.stage.state) {
        (_, Some(start), StageState::Running) => {
            format::seconds((store::id::now_ms() - start).max(0) as f64 / 1000.0)
        }
        (Some(artifact), _, state) if state.is_done() => format::seconds(artifact.seconds),
        _ => String::new(),
    }
}

/// Progress of a running stage, the failure of a failed one.
fn remark(view: &StageView) -> String {
    if let Some(progress) = &view.progress {
        return format!("{}/{} {} {}", progress.step, progress.total, progress.unit, progress.message);
    }
    let failure =
        view.attempts.last().and_then(|attempt| Some((attempt.code.as_ref()?, attempt.message.as_ref()?)));
    match failure {
        Some((code, message)) if !view.stage.state.is_done() && !message.is_empty() => {
            format!("{code} {message}")
        }
        _ => view.stage.message.clone(),
    }
}
