//! One file per command.

mod completions;
mod diff;
mod doctor;
mod explain;
mod gc;
mod graph;
mod logs;
mod plan;
mod resume;
mod run;
mod runs;
mod status;
mod stop;
mod validate;
mod worker;

use engine::Resume;
use store::gc::Policy;
use store::record::Request;

use crate::args::{Args, Command, Global, RunsAction};
use crate::failure::Failure;
use crate::printer::Printer;

/// Carries out a command; gives the exit code of one that did its job.
pub fn execute(args: Args, printer: &Printer) -> Result<u8, Failure> {
    let Args { global, command } = args;
    match command {
        Command::Worker { attempt_dir } => Ok(worker::worker(&attempt_dir)),
        Command::Completions { shell } => Ok(completions::completions(shell, printer)),
        Command::Validate { source, json } => validate::validate(&source, json, printer),
        command => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(Failure::io("cannot start"))?;
            runtime.block_on(with_state(command, &global, printer))
        }
    }
}

/// Commands that look at the state folder, which is read asynchronously.
async fn with_state(command: Command, global: &Global, printer: &Printer) -> Result<u8, Failure> {
    match command {
        Command::Run { source, selected, json } => run::run(&source, &selected, json, global, printer).await,
        Command::Pause { run } => stop::stop(run.as_deref(), Request::Pause, global, printer).await,
        Command::Cancel { run } => stop::stop(run.as_deref(), Request::Cancel, global, printer).await,
        Command::Resume { run, retry_failed, take_over, json } => {
            let again = Resume { retry_failed, take_over, ..Resume::default() };
            resume::resume(run.as_deref(), again, json, global, printer).await
        }
        Command::Plan { source, selected, json } => {
            plan::plan(&source, &selected, json, global, printer).await
        }
        Command::Status { run, json } => status::status(run.as_deref(), json, global, printer).await,
        Command::Runs { action: Some(RunsAction::Rm { run }), .. } => runs::rm(&run, global, printer).await,
        Command::Runs { action: None, limit, json } => runs::runs(limit, json, global, printer).await,
        Command::Gc { force, keep_runs, older_than, json } => {
            gc::gc(Policy { keep_runs, older_than }, force, json, global, printer).await
        }
        Command::Diff { old, new, json } => diff::diff(&old, &new, json, global, printer).await,
        Command::Doctor { deep, json } => doctor::doctor(deep, json, global, printer).await,
        Command::Logs { stage, follow, run } => {
            logs::logs(&stage, follow, run.as_deref(), global, printer).await
        }
        Command::Explain { stage, file, changes, json } => {
            explain::explain(&stage, file.as_deref(), &changes, json, global, printer).await
        }
        Command::Graph { source, format } => graph::graph(&source, format, global, printer).await,
        Command::Validate { .. } | Command::Completions { .. } | Command::Worker { .. } => Ok(0),
    }
}
