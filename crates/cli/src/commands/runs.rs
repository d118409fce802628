//! `pipeline runs` and `pipeline runs rm RUN`

use store::Store;

use crate::args::Global;
use crate::failure::{Failure, exit};
use crate::printer::Printer;
use crate::{format, session};

pub async fn runs(limit: u32, json: bool, global: &Global, printer: &Printer) -> Result<u8, Failure> {
    let store = Store::open_existing(&global.state_dir).await?;
    let runs = store.runs(limit).await?;
    if json {
        printer.json(&runs);
        return Ok(exit::OK);
    }
    if runs.is_empty() {
        printer.note("there are no runs yet");
        return Ok(exit::OK);
    }
    let now = store::id::now_ms();
    let rows = runs.into_iter().map(|run| {
        let took = run.finished_at.map(|end| format::seconds((end - run.created_at).max(0) as f64 / 1000.0));
        let state = printer.state(run.state.as_str());
        vec![
            run.id,
            run.pipeline,
            state,
            format::ago(run.created_at, now),
            took.unwrap_or_default(),
            run.source,
        ]
    });
    printer.table(&["run", "pipeline", "state", "started", "took", "file"], &[], rows.collect());
    Ok(exit::OK)
}

/// Forgets a run. Its results may be those of other runs too, which `gc` finds out.
pub async fn rm(run: &str, global: &Global, printer: &Printer) -> Result<u8, Failure> {
    let run = Store::open_existing(&global.state_dir).await?.run(run).await?;
    let store = Store::open(&global.state_dir, &session::command_line()).await?;
    store.remove_run(&run.id).await?;
    printer.line(format_args!("run {} removed; `pipeline gc --force` removes its files", run.id));
    Ok(exit::OK)
}
