//! The rows that garbage collection decides by, and their deletion.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, TryLockError};

use sqlx::SqliteConnection;

use super::reach::{Facts, Removal, RunFact, StageFact};
use crate::database::Store;
use crate::error::StoreError;
use crate::layout::Layout;
use crate::lease::{Liveness, Owner, run_lease};

/// A lease with its name.
#[derive(sqlx::FromRow)]
struct Lease {
    resource: String,
    #[sqlx(flatten)]
    owner: Owner,
}

/// An attempt, the part that matters.
#[derive(sqlx::FromRow)]
struct AttemptRow {
    id: String,
    run_id: String,
    fingerprint: String,
    open: bool,
    executor: String,
}

impl Store {
    /// As of now, in a transaction of its own.
    pub(crate) async fn facts_now(&self) -> Result<Facts, StoreError> {
        let mut tx = self.readers().begin().await.map_err(|e| self.classify(e))?;
        self.facts(&mut tx).await
    }

    pub(super) async fn facts(&self, tx: &mut SqliteConnection) -> Result<Facts, StoreError> {
        let leases: Vec<Lease> =
            sqlx::query_as("SELECT * FROM leases").fetch_all(&mut *tx).await.map_err(|e| self.classify(e))?;
        let (dead, held): (Vec<_>, Vec<_>) =
            leases.into_iter().partition(|lease| self.liveness(&lease.owner) == Liveness::Dead);
        let held: BTreeSet<String> = held.into_iter().map(|lease| lease.resource).collect();
        let mut facts = Facts {
            runs: runs(tx).await.map_err(|e| self.classify(e))?,
            in_making: held.iter().filter_map(|r| r.strip_prefix("stage:")).map(str::to_owned).collect(),
            stale_leases: dead.into_iter().map(|lease| lease.resource).collect(),
            ..Facts::default()
        };
        for run in &mut facts.runs {
            run.in_use = held.contains(&run_lease(&run.id));
        }
        self.attempts_and_artifacts(tx, &mut facts).await?;
        Ok(facts)
    }

    async fn attempts_and_artifacts(
        &self,
        tx: &mut SqliteConnection,
        facts: &mut Facts,
    ) -> Result<(), StoreError> {
        let at: HashMap<String, usize> =
            facts.runs.iter().enumerate().map(|(at, run)| (run.id.clone(), at)).collect();
        let attempts: Vec<AttemptRow> = sqlx::query_as(
            "SELECT id, run_id, fingerprint, state IN ('starting', 'running') AS open, executor FROM attempts",
        )
        .fetch_all(&mut *tx)
        .await?;
        for attempt in attempts {
            // One that another run has taken over is leased.
            let used = || may_live(self.layout(), &attempt) || facts.in_making.contains(&attempt.fingerprint);
            if attempt.open
                && used()
                && let Some(run) = at.get(&attempt.run_id)
            {
                facts.runs[*run].in_use = true;
            }
            if attempt.open {
                facts.in_making.insert(attempt.fingerprint);
            }
            facts.attempts.insert(attempt.id, (attempt.run_id, attempt.open));
        }
        let checkpoints: Vec<(String, String, String)> =
            sqlx::query_as("SELECT path, fingerprint, attempt_id FROM checkpoints")
                .fetch_all(&mut *tx)
                .await?;
        for (path, fingerprint, attempt) in checkpoints {
            if let Some(run) = facts.attempts.get(&attempt).and_then(|(run, _)| at.get(run)) {
                facts.runs[*run].checkpoints.insert(fingerprint);
            }
            facts.checkpoints.insert(path, attempt);
        }
        let artifacts: Vec<(String, String, String)> =
            sqlx::query_as("SELECT fingerprint, path, attempt_id FROM artifacts").fetch_all(&mut *tx).await?;
        facts.artifacts = artifacts.into_iter().map(|(f, path, attempt)| (f, (path, attempt))).collect();
        Ok(())
    }

    /// The owner of a run, unless it is known to be dead.
    pub(super) async fn live_owner(
        &self,
        tx: &mut SqliteConnection,
        run_id: &str,
    ) -> Result<Option<Owner>, StoreError> {
        let owner: Option<Owner> = sqlx::query_as("SELECT * FROM leases WHERE resource = ?")
            .bind(run_lease(run_id))
            .fetch_optional(tx)
            .await?;
        Ok(owner.filter(|owner| self.liveness(owner) != Liveness::Dead))
    }
}

async fn runs(tx: &mut SqliteConnection) -> Result<Vec<RunFact>, sqlx::Error> {
    let rows: Vec<(String, i64)> = sqlx::query_as(
        "SELECT id, COALESCE(finished_at, created_at) FROM runs ORDER BY created_at DESC, rowid DESC",
    )
    .fetch_all(&mut *tx)
    .await?;
    let stages: Vec<(String, String, bool)> =
        sqlx::query_as("SELECT run_id, fingerprint, state IN ('succeeded', 'cached') FROM stages")
            .fetch_all(&mut *tx)
            .await?;
    let mut by_run: BTreeMap<String, Vec<StageFact>> = BTreeMap::new();
    for (run, fingerprint, done) in stages {
        by_run.entry(run).or_default().push(StageFact { fingerprint, done });
    }
    let fact = |(id, at): (String, i64)| {
        let stages = by_run.remove(&id).unwrap_or_default();
        RunFact { id, at, stages, ..RunFact::default() }
    };
    Ok(rows.into_iter().map(fact).collect())
}

/// Whether the worker of an open attempt may still run. Only a local one can be known not to: its log is
/// locked as long as any process writes to it. Unknown is not dead.
fn may_live(layout: &Layout, attempt: &AttemptRow) -> bool {
    if attempt.executor != "local" {
        return true;
    }
    match File::open(layout.attempt(&attempt.id).join("log.txt")).map(|log| log.try_lock()) {
        Ok(Ok(())) => false,
        Ok(Err(TryLockError::WouldBlock | TryLockError::Error(_))) => true,
        // Not started yet, and its owner will not: a live one has its run in use anyway.
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// Deletes rows; what hangs on a run goes with it.
pub(super) async fn delete(tx: &mut SqliteConnection, removal: &Removal) -> Result<(), StoreError> {
    for run in &removal.runs {
        sqlx::query("DELETE FROM runs WHERE id = ?").bind(run).execute(&mut *tx).await?;
        sqlx::query("DELETE FROM leases WHERE resource = ?").bind(run_lease(run)).execute(&mut *tx).await?;
    }
    for fingerprint in &removal.artifacts {
        sqlx::query("DELETE FROM artifacts WHERE fingerprint = ?")
            .bind(fingerprint)
            .execute(&mut *tx)
            .await?;
    }
    for lease in &removal.leases {
        sqlx::query("DELETE FROM leases WHERE resource = ?").bind(lease).execute(&mut *tx).await?;
    }
    Ok(())
}
