//! Attempts and their checkpoints.

use std::fs;
use std::path::{Path, PathBuf};

use crate::database::Store;
use crate::error::StoreError;
use crate::record::{Attempt, AttemptState, Checkpoint, StageState};
use crate::runs::{Happened, record, set_stage};
use crate::{fault, id};

/// An attempt about to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewAttempt<'a> {
    pub run_id: &'a str,
    pub stage: &'a str,
    pub fingerprint: &'a str,
    pub executor: &'a str,
    pub resume_step: Option<u64>,
}

/// How an attempt ended.
#[derive(Debug, Clone)]
pub struct AttemptEnd<'a> {
    pub state: AttemptState,
    pub class: Option<&'a str>,
    pub code: &'a str,
    pub message: &'a str,
    pub help: &'a str,
    pub seconds: f64,
    pub peak_rss_bytes: u64,
}

impl Store {
    /// Records an attempt *before* anything is started for it, and moves its stage to running.
    pub async fn begin_attempt(&self, new: NewAttempt<'_>) -> Result<Attempt, StoreError> {
        let attempt_id = format!("{}-{}", id::slug(new.stage), id::random_hex(10));
        let mut tx = self.begin().await?;
        let attempt: Attempt = sqlx::query_as(
            "INSERT INTO attempts (id, run_id, stage, fingerprint, nonce, state, executor, resume_step, created_at, number)
             VALUES (?1, ?2, ?3, ?4, ?5, 'starting', ?6, ?7, ?8,
                 1 + (SELECT COALESCE(MAX(number), 0) FROM attempts WHERE run_id = ?2 AND stage = ?3))
             RETURNING *",
        )
        .bind(&attempt_id)
        .bind(new.run_id)
        .bind(new.stage)
        .bind(new.fingerprint)
        .bind(id::random_hex(32))
        .bind(new.executor)
        .bind(new.resume_step.map(|s| s as i64))
        .bind(id::now_ms())
        .fetch_one(&mut *tx)
        .await?;
        set_stage(&mut tx, new.run_id, new.stage, StageState::Running, "").await?;
        self.history(&mut tx, &attempt, "attempt", "").await?;
        tx.commit().await.map_err(|e| self.classify(e))?;
        fault::point("attempt.inserted");
        Ok(attempt)
    }

    /// Records what the executor finds the attempt's process or job by.
    pub async fn attempt_started(&self, attempt: &Attempt, handle: &str) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let changed = sqlx::query(
            "UPDATE attempts SET state = 'running', handle = ?, started_at = COALESCE(started_at, ?)
             WHERE id = ? AND state IN ('starting', 'running')",
        )
        .bind(handle)
        .bind(id::now_ms())
        .bind(&attempt.id)
        .execute(&mut *tx)
        .await?
        .rows_affected();
        if changed == 0 {
            return Err(StoreError::Superseded(attempt.id.clone()));
        }
        self.history(&mut tx, attempt, "started", handle).await?;
        tx.commit().await.map_err(|e| self.classify(e))
    }

    /// Records how an attempt ended; an ended one never changes again.
    pub async fn end_attempt(&self, attempt: &Attempt, end: AttemptEnd<'_>) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        end_attempt(&mut tx, attempt, &end).await?;
        tx.commit().await.map_err(|e| self.classify(e))?;
        fault::point("attempt.ended");
        Ok(())
    }

    /// Attempts for a fingerprint that have no recorded end, oldest first.
    pub async fn open_attempts(&self, fingerprint: &str) -> Result<Vec<Attempt>, StoreError> {
        sqlx::query_as(
            "SELECT * FROM attempts WHERE fingerprint = ? AND state IN ('starting', 'running') ORDER BY created_at",
        )
        .bind(fingerprint)
        .fetch_all(self.readers())
        .await
        .map_err(|e| self.classify(e))
    }

    /// All attempts of a run, by stage and number.
    pub async fn attempts(&self, run_id: &str) -> Result<Vec<Attempt>, StoreError> {
        sqlx::query_as("SELECT * FROM attempts WHERE run_id = ? ORDER BY stage, number")
            .bind(run_id)
            .fetch_all(self.readers())
            .await
            .map_err(|e| self.classify(e))
    }

    /// Notes finished checkpoints found in an attempt's folder: every `step-<number>` in it.
    pub async fn record_checkpoints(&self, attempt: &Attempt, folder: &str) -> Result<(), StoreError> {
        let relative = PathBuf::from("attempts").join(&attempt.id).join(folder);
        let found = checkpoints_in(&self.layout().root().join(&relative));
        if found.is_empty() {
            return Ok(());
        }
        let mut tx = self.begin().await?;
        for (step, name) in found {
            sqlx::query(
                "INSERT OR IGNORE INTO checkpoints (attempt_id, step, fingerprint, path, created_at) VALUES (?, ?, ?, ?, ?)",
            )
            .bind(&attempt.id)
            .bind(step as i64)
            .bind(&attempt.fingerprint)
            .bind(format!("{}/{name}", relative.display()))
            .bind(id::now_ms())
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await.map_err(|e| self.classify(e))?;
        fault::point("attempt.checkpoint");
        Ok(())
    }

    /// The checkpoint of a fingerprint that is furthest and still on disk, whichever attempt made it.
    pub async fn newest_checkpoint(&self, fingerprint: &str) -> Result<Option<Checkpoint>, StoreError> {
        let all: Vec<Checkpoint> = sqlx::query_as(
            "SELECT * FROM checkpoints WHERE fingerprint = ? ORDER BY step DESC, created_at DESC",
        )
        .bind(fingerprint)
        .fetch_all(self.readers())
        .await
        .map_err(|e| self.classify(e))?;
        Ok(all.into_iter().find(|c| self.layout().resolve(&c.path).is_dir()))
    }

    /// Forgets one checkpoint, which turned out to be damaged. Its folder stays for people to look at.
    pub async fn forget_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query("DELETE FROM checkpoints WHERE attempt_id = ? AND step = ?")
            .bind(&checkpoint.attempt_id)
            .bind(checkpoint.step)
            .execute(&mut *tx)
            .await?;
        tx.commit().await.map_err(|e| self.classify(e))
    }

    /// Deletes all checkpoints of a fingerprint, rows first. A folder that cannot be deleted only wastes space.
    pub async fn forget_checkpoints(&self, fingerprint: &str) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let folders = self.forget_checkpoints_in(&mut tx, fingerprint).await?;
        tx.commit().await.map_err(|e| self.classify(e))?;
        remove(folders).await;
        Ok(())
    }

    /// Deletes the rows; the folders are the caller's, once that is durable.
    pub(crate) async fn forget_checkpoints_in(
        &self,
        tx: &mut sqlx::SqliteConnection,
        fingerprint: &str,
    ) -> Result<Vec<PathBuf>, StoreError> {
        let paths: Vec<String> =
            sqlx::query_scalar("DELETE FROM checkpoints WHERE fingerprint = ? RETURNING path")
                .bind(fingerprint)
                .fetch_all(tx)
                .await?;
        Ok(paths.iter().map(|path| self.layout().resolve(path)).collect())
    }

    pub(crate) async fn history(
        &self,
        tx: &mut sqlx::SqliteConnection,
        attempt: &Attempt,
        kind: &str,
        detail: &str,
    ) -> Result<(), sqlx::Error> {
        let (run_id, stage) = (attempt.run_id.as_str(), Some(attempt.stage.as_str()));
        record(tx, Happened { run_id, stage, attempt_id: Some(&attempt.id), kind, detail }).await
    }
}

pub(crate) async fn end_attempt(
    tx: &mut sqlx::SqliteConnection,
    attempt: &Attempt,
    end: &AttemptEnd<'_>,
) -> Result<(), StoreError> {
    let changed = sqlx::query(
        "UPDATE attempts SET state = ?, class = ?, code = ?, message = ?, help = ?, seconds = ?, peak_rss_bytes = ?,
             finished_at = ?
         WHERE id = ? AND state IN ('starting', 'running')",
    )
    .bind(end.state)
    .bind(end.class)
    .bind(end.code)
    .bind(end.message)
    .bind(end.help)
    .bind(end.seconds)
    .bind(end.peak_rss_bytes as i64)
    .bind(id::now_ms())
    .bind(&attempt.id)
    .execute(&mut *tx)
    .await?
    .rows_affected();
    if changed == 0 {
        return Err(StoreError::Superseded(attempt.id.clone()));
    }
    let (run_id, stage) = (attempt.run_id.as_str(), Some(attempt.stage.as_str()));
    let attempt_id = Some(attempt.id.as_str());
    record(tx, Happened { run_id, stage, attempt_id, kind: end.state.as_str(), detail: end.message }).await?;
    Ok(())
}

/// Deletes folders that nothing points to any more. What cannot be deleted only wastes space.
pub(crate) async fn remove(folders: Vec<PathBuf>) {
    let all = move || folders.iter().for_each(|folder| drop(fs::remove_dir_all(folder)));
    let _ = tokio::task::spawn_blocking(all).await;
}

/// `(step, name)` of every finished checkpoint folder: `step-00000040`.
fn checkpoints_in(folder: &Path) -> Vec<(u64, String)> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let finished = names.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).filter_map(|e| {
        let name = e.file_name().into_string().ok()?;
        let step = name.strip_prefix("step-")?.parse().ok()?;
        Some((step, name))
    });
    finished.collect()
}
