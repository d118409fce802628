//! `pipeline gc`: what no kept run needs, shown or removed.

use serde_json::json;
use store::Store;
use store::gc::{Collection, Policy, What};

use crate::args::Global;
use crate::failure::{Failure, exit};
use crate::printer::Printer;
use crate::{format, session};

pub async fn gc(
    policy: Policy,
    force: bool,
    json: bool,
    global: &Global,
    printer: &Printer,
) -> Result<u8, Failure> {
    let store = Store::open_existing(&global.state_dir).await?;
    let collection = if force {
        store.close().await;
        Store::open(&global.state_dir, &session::command_line()).await?.collect(policy).await?
    } else {
        store.collectable(policy).await?
    };
    let bytes: u64 = collection.items.iter().map(|item| item.bytes).sum();
    if json {
        let Collection { runs, items } = &collection;
        printer.json(&json!({ "removed": force, "bytes": bytes, "runs": runs, "items": items }));
        return Ok(exit::OK);
    }
    show(&collection, printer);
    let (size, what) = (format::bytes(bytes), summary(&collection));
    match (collection == Collection::default(), force) {
        (true, _) => printer.line("there is nothing to remove"),
        (false, true) => printer.line(format_args!("removed {what}: {size}")),
        (false, false) => {
            printer.line(format_args!("would remove {what}: {size}; `--force` does"));
        }
    }
    Ok(exit::OK)
}

fn show(collection: &Collection, printer: &Printer) {
    let now = store::id::now_ms();
    let runs = collection
        .runs
        .iter()
        .map(|run| vec!["run".to_owned(), run.run.clone(), String::new(), format::ago(run.at, now)]);
    let items = collection.items.iter().map(|item| {
        let path = item.path.display().to_string();
        vec![word(item.what).to_owned(), path, format::bytes(item.bytes), String::new()]
    });
    let rows: Vec<_> = runs.chain(items).collect();
    if !rows.is_empty() {
        printer.table(&["what", "name", "size", "ended"], &[2], rows);
        printer.line("");
    }
}

/// `2 runs, 1 result, 3 attempts and 1 leftover`
fn summary(collection: &Collection) -> String {
    let items = |what| collection.items.iter().filter(|item| item.what == what).count();
    let counts = [
        (collection.runs.len(), "run"),
        (items(What::Artifact), word(What::Artifact)),
        (items(What::Attempt), word(What::Attempt)),
        (items(What::Leftover), word(What::Leftover)),
    ];
    let some = counts.iter().filter(|(count, _)| *count > 0);
    let words: Vec<_> =
        some.map(|(n, word)| format!("{n} {word}{}", if *n == 1 { "" } else { "s" })).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

fn word(what: What) -> &'static str {
    match what {
        What::Artifact => "result",
        What::Attempt => "attempt",
        What::Leftover => "leftover",
    }
}
