//! Runs and their stages.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;
use sqlx::SqliteConnection;

use crate::database::Store;
use crate::error::StoreError;
use crate::lease::{Claim, Liveness, run_lease, stage_lease};
use crate::record::{Request, Run, RunState, Stage, StageState, Transition};
use crate::{fault, id};

/// What a run is made from.
#[derive(Debug, Clone, Copy)]
pub struct NewRun<'a> {
    pub pipeline: &'a str,
    /// The pipeline file as it was named.
    pub source: &'a str,
    pub spec_hash: &'a str,
    /// The frozen plan as JSON.
    pub plan: &'a str,
    pub cwd: &'a Path,
    pub command: &'a str,
}

/// A stage as decided at the start or resumption of a run.
#[derive(Debug, Clone, Serialize)]
pub struct DecidedStage<'a> {
    pub name: &'a str,
    pub kind: &'a str,
    pub fingerprint: &'a str,
    pub state: StageState,
    /// JSON list.
    pub reasons: String,
    pub forced: bool,
}

/// One line of the history: what happened to what.
pub(crate) struct Happened<'a> {
    pub run_id: &'a str,
    pub stage: Option<&'a str>,
    pub attempt_id: Option<&'a str>,
    pub kind: &'a str,
    pub detail: &'a str,
}

pub(crate) async fn record(tx: &mut SqliteConnection, event: Happened<'_>) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO events (run_id, stage, attempt_id, at, kind, detail) VALUES (?, ?, ?, ?, ?, ?)")
        .bind(event.run_id)
        .bind(event.stage)
        .bind(event.attempt_id)
        .bind(id::now_ms())
        .bind(event.kind)
        .bind(event.detail)
        .execute(tx)
        .await?;
    Ok(())
}

impl Store {
    /// Records a new run with its stages, owned by this process. Returns its id.
    pub async fn create_run(
        &self,
        new: NewRun<'_>,
        stages: &[DecidedStage<'_>],
    ) -> Result<String, StoreError> {
        let run_id = format!("{}-{}", id::slug(new.pipeline), id::random_hex(8));
        let mut tx = self.begin().await?;
        sqlx::query(
            "INSERT INTO runs (id, pipeline, source, spec_hash, plan, cwd, command, state, created_at)
             VALUES (?, ?, ?, ?, ?, ?, ?, 'running', ?)",
        )
        .bind(&run_id)
        .bind(new.pipeline)
        .bind(new.source)
        .bind(new.spec_hash)
        .bind(new.plan)
        .bind(new.cwd.as_os_str().as_bytes())
        .bind(new.command)
        .bind(id::now_ms())
        .execute(&mut *tx)
        .await?;
        decide(&mut tx, &run_id, stages).await?;
        self.claim_in(&mut tx, &run_lease(&run_id)).await?;
        let event =
            Happened { run_id: &run_id, stage: None, attempt_id: None, kind: "created", detail: new.command };
        record(&mut tx, event).await?;
        tx.commit().await.map_err(|e| self.classify(e))?;
        fault::point("run.created");
        Ok(run_id)
    }

    /// Makes this process the owner of an existing run, taking over from a dead one.
    pub async fn claim_run(&self, run_id: &str) -> Result<(), StoreError> {
        match self.claim(&run_lease(run_id)).await? {
            Claim::Ours { .. } => {
                fault::point("run.leased");
                Ok(())
            }
            Claim::Taken(owner) => Err(StoreError::Locked { run: run_id.to_owned(), owner: Box::new(owner) }),
        }
    }

    /// Records what was decided for the stages of a run that goes on.
    pub async fn resume_run(
        &self,
        run_id: &str,
        command: &str,
        stages: &[DecidedStage<'_>],
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE runs SET state = 'running', finished_at = NULL, request = NULL WHERE id = ?")
            .bind(run_id)
            .execute(&mut *tx)
            .await?;
        decide(&mut tx, run_id, stages).await?;
        record(&mut tx, Happened { run_id, stage: None, attempt_id: None, kind: "resumed", detail: command })
            .await?;
        tx.commit().await.map_err(|e| self.classify(e))
    }

    /// Asks the process that carries out a run to stop it.
    pub async fn ask(&self, run_id: &str, request: Request) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE runs SET request = ? WHERE id = ? AND state = 'running'")
            .bind(request)
            .bind(run_id)
            .execute(&mut *tx)
            .await?;
        let event = Happened { run_id, stage: None, attempt_id: None, kind: request.as_str(), detail: "" };
        record(&mut tx, event).await?;
        tx.commit().await.map_err(|e| self.classify(e))
    }

    /// What was asked of a run since it was last started.
    pub async fn asked(&self, run_id: &str) -> Result<Option<Request>, StoreError> {
        sqlx::query_scalar("SELECT request FROM runs WHERE id = ?")
            .bind(run_id)
            .fetch_optional(self.readers())
            .await
            .map(Option::flatten)
            .map_err(|e| self.classify(e))
    }

    /// Ends a run and gives its lease back.
    pub async fn finish_run(&self, run_id: &str, state: RunState) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sqlx::query("UPDATE runs SET state = ?, finished_at = ? WHERE id = ?")
            .bind(state)
            .bind(id::now_ms())
            .bind(run_id)
            .execute(&mut *tx)
            .await?;
        let event = Happened { run_id, stage: None, attempt_id: None, kind: state.as_str(), detail: "" };
        record(&mut tx, event).await?;
        fault::point("run.finished");
        self.release_in(&mut tx, &run_lease(run_id)).await?;
        tx.commit().await.map_err(|e| self.classify(e))?;
        fault::point("run.released");
        Ok(())
    }

    /// Moves a stage of a run to another state.
    pub async fn set_stage(
        &self,
        run_id: &str,
        stage: &str,
        state: StageState,
        message: &str,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        set_stage(&mut tx, run_id, stage, state, message).await?;
        tx.commit().await.map_err(|e| self.classify(e))
    }

    /// Ends a stage of a run without a result, and gives its lease back.
    pub async fn end_stage(
        &self,
        run_id: &str,
        stage: &str,
        fingerprint: &str,
        state: StageState,
        message: &str,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        set_stage(&mut tx, run_id, stage, state, message).await?;
        self.release_in(&mut tx, &stage_lease(fingerprint)).await?;
        tx.commit().await.map_err(|e| self.classify(e))?;
        fault::point("stage.released");
        Ok(())
    }

    /// A run by its id, or by a unique beginning or end of it; its state is `interrupted` if its owner died.
    pub async fn run(&self, wanted: &str) -> Result<Run, StoreError> {
        let exact = sqlx::query_as("SELECT * FROM runs WHERE id = ?")
            .bind(wanted)
            .fetch_optional(self.readers())
            .await;
        if let Some(run) = exact.map_err(|e| self.classify(e))? {
            return self.seen(run).await;
        }
        let mut like: Vec<Run> = sqlx::query_as(
            "SELECT * FROM runs WHERE substr(id, 1, length(?1)) = ?1 OR substr(id, -length(?1)) = ?1 LIMIT 2",
        )
        .bind(wanted)
        .fetch_all(self.readers())
        .await
        .map_err(|e| self.classify(e))?;
        match (like.pop(), like.pop()) {
            (Some(run), None) if !wanted.is_empty() => self.seen(run).await,
            _ => Err(StoreError::UnknownRun(wanted.to_owned())),
        }
    }

    /// The newest runs, newest first.
    pub async fn runs(&self, limit: u32) -> Result<Vec<Run>, StoreError> {
        let found: Vec<Run> =
            sqlx::query_as("SELECT * FROM runs ORDER BY created_at DESC, rowid DESC LIMIT ?")
                .bind(limit)
                .fetch_all(self.readers())
                .await
                .map_err(|e| self.classify(e))?;
        let mut runs = Vec::with_capacity(found.len());
        for run in found {
            runs.push(self.seen(run).await?);
        }
        Ok(runs)
    }

    /// The stages of a run, in the plan's order.
    pub async fn stages(&self, run_id: &str) -> Result<Vec<Stage>, StoreError> {
        sqlx::query_as("SELECT * FROM stages WHERE run_id = ? ORDER BY position")
            .bind(run_id)
            .fetch_all(self.readers())
            .await
            .map_err(|e| self.classify(e))
    }

    /// The history of a run, oldest first.
    pub async fn transitions(&self, run_id: &str) -> Result<Vec<Transition>, StoreError> {
        sqlx::query_as("SELECT * FROM events WHERE run_id = ? ORDER BY id")
            .bind(run_id)
            .fetch_all(self.readers())
            .await
            .map_err(|e| self.classify(e))
    }

    /// Tells a run that is running from one whose owner died.
    async fn seen(&self, mut run: Run) -> Result<Run, StoreError> {
        if run.state == RunState::Running {
            let owner = self.owner_of(&run_lease(&run.id)).await?;
            if owner.is_none_or(|o| self.liveness(&o) == Liveness::Dead) {
                // It may have ended between the two looks: its end and its lease go together.
                let now: Option<RunState> = sqlx::query_scalar("SELECT state FROM runs WHERE id = ?")
                    .bind(&run.id)
                    .fetch_optional(self.readers())
                    .await
                    .map_err(|e| self.classify(e))?;
                run.state = now.filter(|s| *s != RunState::Running).unwrap_or(RunState::Interrupted);
            }
        }
        Ok(run)
    }
}

async fn decide(
    tx: &mut SqliteConnection,
    run_id: &str,
    stages: &[DecidedStage<'_>],
) -> Result<(), StoreError> {
    // One statement, however many stages there are.
    let rows = serde_json::to_string(stages).map_err(|e| sqlx::Error::Encode(e.into()))?;
    sqlx::query(
        "INSERT INTO stages (run_id, position, name, kind, fingerprint, state, reasons, forced)
         SELECT ?, key, value ->> 'name', value ->> 'kind', value ->> 'fingerprint', value ->> 'state',
             value ->> 'reasons', value ->> 'forced'
         FROM json_each(?) WHERE true
         ON CONFLICT (run_id, name) DO UPDATE SET state = excluded.state, reasons = excluded.reasons,
             forced = excluded.forced, message = ''",
    )
    .bind(run_id)
    .bind(rows)
    .execute(&mut *tx)
    .await?;
    // What was planned as there may have been garbage collected since. From here on it is reached.
    let gone: Option<String> = sqlx::query_scalar(
        "SELECT name FROM stages WHERE run_id = ? AND state = 'cached'
             AND NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.fingerprint = stages.fingerprint) LIMIT 1",
    )
    .bind(run_id)
    .fetch_optional(tx)
    .await?;
    gone.map_or(Ok(()), |stage| Err(StoreError::RemovedMeanwhile { stage }))
}

pub(crate) async fn set_stage(
    tx: &mut SqliteConnection,
    run_id: &str,
    stage: &str,
    state: StageState,
    message: &str,
) -> Result<(), sqlx::Error> {
    let now = id::now_ms();
    let ends = !matches!(state, StageState::Pending | StageState::Running);
    sqlx::query(
        "UPDATE stages SET state = ?, message = ?, finished_at = ?,
             started_at = CASE WHEN ? THEN COALESCE(started_at, ?) ELSE started_at END
         WHERE run_id = ? AND name = ?",
    )
    .bind(state)
    .bind(message)
    .bind(ends.then_some(now))
    .bind(state == StageState::Running)
    .bind(now)
    .bind(run_id)
    .bind(stage)
    .execute(&mut *tx)
    .await?;
    let event =
        Happened { run_id, stage: Some(stage), attempt_id: None, kind: state.as_str(), detail: message };
    record(tx, event).await
}
