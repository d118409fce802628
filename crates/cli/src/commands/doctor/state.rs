//! The state folder's content: the database, results, what the dead left behind.

use std::path::Path;

use store::files;
use store::gc::Policy;
use store::record::Artifact;
use store::{Store, StoreError};

use super::Finding;
use crate::format;

/// Names listed of many.
const SHOWN: usize = 5;

pub async fn check(root: &Path, deep: bool) -> Vec<Finding> {
    let store = match Store::open_existing(root).await {
        Ok(store) => store,
        Err(StoreError::NoState(root)) => {
            return vec![Finding::ok("database", format!("there is none at {} yet", root.display()))];
        }
        Err(error) => return vec![Finding::error("database", &error)],
    };
    let mut findings = vec![database(&store, deep).await];
    match results(&store, deep).await {
        Ok(finding) => findings.push(finding),
        Err(error) => findings.push(Finding::error("results", &error)),
    }
    match owners(&store).await {
        Ok(found) => findings.extend(found),
        Err(error) => findings.push(Finding::error("owners", &error)),
    }
    match garbage(&store).await {
        Ok(finding) => findings.push(finding),
        Err(error) => findings.push(Finding::error("orphans", &error)),
    }
    findings
}

async fn database(store: &Store, deep: bool) -> Finding {
    let path = store.layout().database();
    match store.integrity(deep).await {
        Ok(wrong) if wrong.is_empty() => {
            let size = format::bytes(store::gc::size_of(&path));
            Finding::ok("database", format!("{} is whole, {size}", path.display()))
        }
        Ok(wrong) => {
            let damaged = StoreError::Damaged { path, detail: few(&wrong) };
            Finding::error("database", &damaged)
        }
        Err(error) => Finding::error("database", &error),
    }
}

/// Sizes always, contents with `--deep`.
async fn results(store: &Store, deep: bool) -> Result<Finding, StoreError> {
    let all = store.all_artifacts().await?;
    let mut wrong = Vec::new();
    for artifact in &all {
        if let Some(path) = damaged(store, artifact, deep)? {
            wrong.push(format!("{}/{path}", artifact.path));
        }
    }
    let how = if deep { "by content" } else { "by size; --deep reads them" };
    if wrong.is_empty() {
        return Ok(Finding::ok("results", format!("{} whole, {how}", all.len())));
    }
    let message = format!("{} of {} are missing or damaged: {}", wrong.len(), all.len(), few(&wrong));
    // A run compares sizes only.
    let help = if deep {
        "move those folders away: the stages that made them then run again"
    } else {
        "the stages that made them run again when they are needed"
    };
    Ok(Finding::problem("results", message, help))
}

/// The first file of a result that is not what it was.
fn damaged(store: &Store, artifact: &Artifact, deep: bool) -> Result<Option<String>, StoreError> {
    let list = artifact.file_list()?;
    let folder = store.layout().resolve(&artifact.path);
    if let Some(path) = files::first_missing(&folder, &list) {
        return Ok(Some(path.to_owned()));
    }
    match store.check_artifact(artifact) {
        Err(StoreError::Mismatch { detail, .. }) if deep => Ok(Some(detail)),
        _ => Ok(None),
    }
}

async fn owners(store: &Store) -> Result<Vec<Finding>, StoreError> {
    let health = store.health().await?;
    let mut findings = Vec::new();
    let words =
        |owners: &[store::lease::Owner]| few(&owners.iter().map(ToString::to_string).collect::<Vec<_>>());
    if !health.alive.is_empty() {
        findings.push(Finding::ok("owners", format!("at work: {}", words(&health.alive))));
    }
    if !health.unseen.is_empty() {
        findings.push(Finding::warning(
            "owners",
            format!("cannot be seen from this machine: {}", words(&health.unseen)),
            "what they hold stays locked; look there whether they live",
        ));
    }
    if !health.abandoned.is_empty() {
        let runs: std::collections::BTreeSet<_> =
            health.abandoned.iter().map(|(_, run)| run.clone()).collect();
        let runs: Vec<_> = runs.into_iter().collect();
        findings.push(Finding::warning(
            "attempts",
            format!("{} were cut off, of {}", health.abandoned.len(), few(&runs)),
            "`pipeline resume RUN` goes on, `pipeline runs rm RUN` forgets it",
        ));
    } else if !health.stale_leases.is_empty() {
        let message = format!("{} are left of dead processes", health.stale_leases.len());
        findings.push(Finding::ok("leases", format!("{message}; whoever needs one takes it over")));
    }
    if findings.is_empty() {
        findings.push(Finding::ok("owners", "nobody is at work, nothing was cut off"));
    }
    Ok(findings)
}

async fn garbage(store: &Store) -> Result<Finding, StoreError> {
    let found = store.collectable(Policy::default()).await?.items;
    if found.is_empty() {
        return Ok(Finding::ok("orphans", "none"));
    }
    let bytes = format::bytes(found.iter().map(|item| item.bytes).sum());
    let message = format!("{} folders that nothing points to, {bytes}", found.len());
    Ok(Finding::warning("orphans", message, "`pipeline gc --force` removes them"))
}

/// The first few of many names.
fn few(names: &[String]) -> String {
    let mut text = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}
