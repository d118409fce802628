//! Leases: who owns a run, and who is making an artifact. Compare-and-set inside one write transaction;
//! a dead owner is replaced at once, a live one never.

use sqlx::SqliteConnection;

pub use crate::owner::{Liveness, Owner};

use crate::database::Store;
use crate::error::StoreError;
use crate::owner;

/// What came of asking for a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It is ours. `previous` is the dead owner that it was taken from.
    Ours { previous: Option<Owner> },
    /// A live owner (or one that cannot be seen from here) has it.
    Taken(Owner),
}

/// Name of the lease on a run.
pub fn run_lease(run_id: &str) -> String {
    format!("run:{run_id}")
}

/// Name of the lease on making the artifact of a fingerprint.
pub fn stage_lease(fingerprint: &str) -> String {
    format!("stage:{fingerprint}")
}

impl Store {
    /// Takes the lease on `resource` if it is free, ours already, or its owner is dead.
    pub async fn claim(&self, resource: &str) -> Result<Claim, StoreError> {
        // Waiting for a live owner is common and must not queue for the write lock.
        if let Some(owner) = self.owner_of(resource).await? {
            let mine = self.me().is_some_and(|me| me.owner.owner == owner.owner);
            if !mine && self.liveness(&owner) != Liveness::Dead {
                return Ok(Claim::Taken(owner));
            }
        }
        let mut tx = self.begin().await?;
        let claim = self.claim_in(&mut tx, resource).await?;
        tx.commit().await.map_err(|e| self.classify(e))?;
        Ok(claim)
    }

    pub(crate) async fn claim_in(
        &self,
        tx: &mut SqliteConnection,
        resource: &str,
    ) -> Result<Claim, StoreError> {
        let me = self.me().ok_or_else(|| StoreError::NoState(self.layout().root().to_owned()))?;
        let found: Option<Owner> = sqlx::query_as("SELECT * FROM leases WHERE resource = ?")
            .bind(resource)
            .fetch_optional(&mut *tx)
            .await?;
        let previous = match found {
            Some(owner) if owner.owner == me.owner.owner => return Ok(Claim::Ours { previous: None }),
            Some(owner) if self.liveness(&owner) != Liveness::Dead => return Ok(Claim::Taken(owner)),
            other => other,
        };
        let o = &me.owner;
        sqlx::query(
            "INSERT INTO leases (resource, epoch, owner, host, boot, pid_ns, pid, started, command, since)
             VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?, ?)
             ON CONFLICT (resource) DO UPDATE SET epoch = epoch + 1, owner = excluded.owner,
                 host = excluded.host, boot = excluded.boot, pid_ns = excluded.pid_ns, pid = excluded.pid,
                 started = excluded.started, command = excluded.command, since = excluded.since",
        )
        .bind(resource)
        .bind(&o.owner)
        .bind(&o.host)
        .bind(&o.boot)
        .bind(&o.pid_ns)
        .bind(o.pid)
        .bind(o.started)
        .bind(&o.command)
        .bind(crate::id::now_ms())
        .execute(&mut *tx)
        .await?;
        Ok(Claim::Ours { previous })
    }

    /// Frees all that the owner of `resource` has, if that owner cannot be seen from here: somebody who can
    /// has said that it is dead. A live owner keeps what it has. Returns the one that was put out.
    pub async fn put_out_unseen(&self, resource: &str) -> Result<Option<Owner>, StoreError> {
        let mut tx = self.begin().await?;
        let found: Option<Owner> = sqlx::query_as("SELECT * FROM leases WHERE resource = ?")
            .bind(resource)
            .fetch_optional(&mut *tx)
            .await?;
        let Some(owner) = found.filter(|owner| self.liveness(owner) == Liveness::Unknown) else {
            return Ok(None);
        };
        sqlx::query("DELETE FROM leases WHERE owner = ?").bind(&owner.owner).execute(&mut *tx).await?;
        tx.commit().await.map_err(|e| self.classify(e))?;
        Ok(Some(owner))
    }

    /// Gives the lease back, if it is ours.
    pub(crate) async fn release_in(
        &self,
        tx: &mut SqliteConnection,
        resource: &str,
    ) -> Result<(), StoreError> {
        let Some(me) = self.me() else { return Ok(()) };
        sqlx::query("DELETE FROM leases WHERE resource = ? AND owner = ?")
            .bind(resource)
            .bind(&me.owner.owner)
            .execute(tx)
            .await?;
        Ok(())
    }

    /// Who has the lease, dead or alive.
    pub async fn owner_of(&self, resource: &str) -> Result<Option<Owner>, StoreError> {
        sqlx::query_as("SELECT * FROM leases WHERE resource = ?")
            .bind(resource)
            .fetch_optional(self.readers())
            .await
            .map_err(|e| self.classify(e))
    }

    /// Whether the owner's process still lives.
    pub fn liveness(&self, owner: &Owner) -> Liveness {
        owner::liveness(owner, &self.layout().owners())
    }
}
