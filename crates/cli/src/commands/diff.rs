//! `pipeline diff RUN RUN`: what two runs did differently, what came out and what it cost.

use engine::difference::{Difference, Side, StageDifference, difference};
use store::Store;
use store::record::Run;

use crate::args::Global;
use crate::failure::{Failure, exit};
use crate::format;
use crate::printer::Printer;

pub async fn diff(
    old: &str,
    new: &str,
    json: bool,
    global: &Global,
    printer: &Printer,
) -> Result<u8, Failure> {
    let store = Store::open_existing(&global.state_dir).await?;
    let found = difference(&store, old, new).await?;
    if json {
        printer.json(&found);
    } else {
        show(&found, printer);
    }
    Ok(exit::OK)
}

fn show(found: &Difference, printer: &Printer) {
    let now = store::id::now_ms();
    let run = |run: &Run| format!("{} ({}, {})", run.id, run.state, format::ago(run.created_at, now));
    printer.line(format_args!("{} → {}", run(&found.old), run(&found.new)));
    let (same, differ): (Vec<_>, Vec<_>) = found.stages.iter().partition(|stage| stage.is_same());
    for stage in differ {
        printer.line("");
        show_stage(stage, printer);
    }
    if !same.is_empty() {
        let names: Vec<_> = same.iter().map(|stage| stage.stage.as_str()).collect();
        printer.line(format_args!("\nthe same in both: {}", names.join(", ")));
    }
}

fn show_stage(found: &StageDifference, printer: &Printer) {
    let (Some(old), Some(new)) = (&found.old, &found.new) else {
        let run = if found.old.is_some() { "old" } else { "new" };
        printer.line(format_args!("{}: only in the {run} run", found.stage));
        return;
    };
    let states =
        if old.state == new.state { String::new() } else { format!(": {} → {}", old.state, new.state) };
    printer.line(format_args!("{}{states}", found.stage));
    for change in &found.changes {
        match change.part.strip_prefix("input.") {
            Some(input) => printer.line(format_args!("  another result of its input `{input}`")),
            None => printer.line(format_args!("  {change}")),
        }
    }
    let rows: Vec<_> = found
        .numbers
        .iter()
        .filter(|pair| pair.old != pair.new)
        .map(|pair| vec![format!("  {}", pair.name), format::number(pair.old), format::number(pair.new)])
        .chain(costs(old, new))
        .collect();
    if !rows.is_empty() {
        printer.table(&["", "old", "new"], &[1, 2], rows);
    }
}

/// Time and memory, where both have a result.
fn costs(old: &Side, new: &Side) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    if let (Some(old), Some(new)) = (old.seconds, new.seconds) {
        rows.push(vec!["  time".into(), format::seconds(old), format::seconds(new)]);
    }
    if let (Some(old), Some(new)) = (old.peak_rss_bytes, new.peak_rss_bytes) {
        let bytes = |bytes: i64| format::bytes(bytes.max(0) as u64);
        rows.push(vec!["  memory".into(), bytes(old), bytes(new)]);
    }
    rows
}
