//! `pipeline pause [RUN]` and `pipeline cancel [RUN]`

use std::time::{Duration, Instant};

use engine::Engine;
use store::Store;
use store::lease::run_lease;
use store::record::{Request, Run, RunState};
use tokio::sync::mpsc;

use super::run::{listen, show};
use super::status::no_runs;
use crate::args::Global;
use crate::failure::{Failure, exit};
use crate::printer::Printer;
use crate::session;

/// How often the run is looked at until it has stopped.
const EVERY: Duration = Duration::from_millis(100);
/// Longer than a run needs to see a request, and stages mostly to write a checkpoint.
const SLOW: Duration = Duration::from_secs(15);

pub async fn stop(
    run: Option<&str>,
    request: Request,
    global: &Global,
    printer: &Printer,
) -> Result<u8, Failure> {
    let store = Store::open_existing(&global.state_dir).await?;
    let run = match run {
        Some(wanted) => store.run(wanted).await?,
        None => store.runs(1).await?.pop().ok_or_else(no_runs)?,
    };
    if !matches!(run.state, RunState::Running | RunState::Interrupted) {
        printer.line(format_args!("run {} is not running: {}", run.id, run.state));
        return Ok(exit::OK);
    }
    store.close().await;
    let store = Store::open(&global.state_dir, &session::command_line()).await?;
    let state = match run.state {
        RunState::Running => ask(&store, &run, request, printer).await?,
        _ => end_workers(&store, &run, request, printer).await?,
    };
    printer.line(format_args!("run {} {state}; `pipeline resume {}` goes on", run.id, run.id));
    Ok(exit::OK)
}

/// Asks the run's process, and waits until it has done so.
async fn ask(store: &Store, run: &Run, request: Request, printer: &Printer) -> Result<RunState, Failure> {
    store.ask(&run.id, request).await?;
    printer
        .note(format_args!("waiting for run {} to stop; Ctrl-C here does not take the request back", run.id));
    let (start, mut told) = (Instant::now(), false);
    loop {
        let now = store.run(&run.id).await?.state;
        if now != RunState::Running {
            return Ok(now);
        }
        if !told && start.elapsed() > SLOW {
            told = true;
            if let Some(owner) = store.owner_of(&run_lease(&run.id)).await? {
                printer
                    .note(format_args!("it has not stopped yet: {owner}; is that process itself stopped?"));
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// The run's process is dead. Workers of it that still live are found and stopped.
async fn end_workers(
    store: &Store,
    run: &Run,
    request: Request,
    printer: &Printer,
) -> Result<RunState, Failure> {
    let engine = Engine::new(store.clone(), session::options()?);
    listen(&engine)?;
    let (updates, receiver) = mpsc::unbounded_channel();
    let (outcome, ()) =
        tokio::join!(engine.stop(&run.id, request, updates), show(receiver, engine.control(), printer));
    Ok(outcome?.state)
}
