//! `pipeline resume [RUN]`

use std::collections::HashMap;
use std::path::Path;

use engine::{Engine, Hasher, Resume};
use plan::{Plan, PlannedStage, Selection, changes};
use serde_json::json;
use spec::Pipeline;
use store::Store;
use store::record::{Run, RunState};
use tokio::sync::mpsc;

use super::run::{finish, listen, show};
use crate::args::{Changes, Global};
use crate::failure::{Failure, exit};
use crate::printer::Printer;
use crate::{load, session};

/// Runs looked through for one that is not finished.
const RUNS: u32 = 50;

pub async fn resume(
    run: Option<&str>,
    again: Resume,
    json: bool,
    global: &Global,
    printer: &Printer,
) -> Result<u8, Failure> {
    let store = Store::open_existing(&global.state_dir).await?;
    let run = match run {
        Some(wanted) => store.run(wanted).await?,
        None => match store.runs(RUNS).await?.into_iter().find(is_unfinished) {
            Some(run) => run,
            None => {
                if json {
                    printer.json(&json!({ "run_id": null, "state": "nothing-to-resume", "stages": [] }));
                }
                return Err(nothing());
            }
        },
    };
    if run.state == RunState::Succeeded {
        if json {
            printer.json(&json!({ "run_id": run.id, "state": run.state, "stages": [] }));
            return Ok(exit::OK);
        }
        printer.line(format_args!("run {} has succeeded, there is nothing to go on with", run.id));
        return Ok(exit::OK);
    }
    store.close().await;
    let store = Store::open(&global.state_dir, &session::command_line()).await?;
    session::tell_network(&store, printer);
    let plan: Plan = serde_json::from_str(&run.plan)
        .map_err(|source| engine::EngineError::OldPlan { run: run.id.clone(), source })?;
    let mut options = session::options()?;
    // The plan's relative paths start where the run was started.
    std::env::set_current_dir(&run.cwd.0)
        .map_err(Failure::io(format!("cannot enter {}", run.cwd.0.display())))?;
    options.cwd = run.cwd.0.clone();
    let mut now = None;
    if let Ok(pipeline) = load::pipeline(Path::new(&run.source), &Changes::default()) {
        now = tell_changes(&run, &plan, &pipeline, &store, printer).await?;
        options.executor = Some(pipeline.executor);
    }
    let engine = Engine::new(store.clone(), options);
    listen(&engine)?;
    let (updates, receiver) = mpsc::unbounded_channel();
    let resume = Resume { now, ..again };
    let (outcome, ()) =
        tokio::join!(engine.resume(&run.id, &resume, updates), show(receiver, engine.control(), printer));
    finish(&outcome?, &plan, &store, json, printer).await
}

fn is_unfinished(run: &Run) -> bool {
    run.state != RunState::Succeeded
}

fn nothing() -> Failure {
    Failure::usage("there is no unfinished run", "`pipeline runs` lists all; `pipeline run FILE` starts one")
}

/// A run goes on as it was planned. When the file says something else by now, this is said, never silent.
/// Gives the plan that the file makes now.
async fn tell_changes(
    run: &Run,
    planned: &Plan,
    pipeline: &Pipeline,
    store: &Store,
    printer: &Printer,
) -> Result<Option<Plan>, Failure> {
    let mut hasher = Hasher::load(store).await?;
    // A file that is gone is reported by the stage that needs it.
    let Ok(mut now) = Plan::new(pipeline, &mut hasher) else { return Ok(None) };
    hasher.save().await?;
    if planned.is_part {
        let until = planned.stages.iter().map(|stage| stage.name.clone()).collect();
        now = now.select(&Selection { until, ..Selection::default() });
    }
    if now.spec_hash == planned.spec_hash {
        return Ok(Some(now));
    }
    printer.warn(format_args!(
        "run {} goes on as it was planned, which is not what {} says now:",
        run.id, run.source
    ));
    let there: HashMap<&str, &PlannedStage> = now.stages.iter().map(|s| (s.name.as_str(), s)).collect();
    for stage in &planned.stages {
        match there.get(stage.name.as_str()) {
            None => printer.warn(format_args!("  {}: not in the file any more", stage.name)),
            Some(other) => {
                let own = changes(&stage.parts, &other.parts);
                for change in own.iter().filter(|change| !change.part.starts_with("input.")) {
                    printer.warn(format_args!("  {}: {change}", stage.name));
                }
            }
        }
    }
    for stage in now.stages.iter().filter(|stage| planned.stage(&stage.name).is_none()) {
        printer.warn(format_args!("  {}: new in the file", stage.name));
    }
    printer.warn(format_args!("`pipeline run {}` runs what it says now.", run.source));
    Ok(Some(now))
}
