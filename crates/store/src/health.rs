//! What `doctor` asks of a state folder. Reads only.

use crate::database::Store;
use crate::error::StoreError;
use crate::lease::{Liveness, Owner};
use crate::record::Artifact;

/// Who works in a state folder, and what the dead left open.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// Attempts without a recorded end that nothing alive works on, with their runs.
    pub abandoned: Vec<(String, String)>,
    /// Leases whose owners are dead.
    pub stale_leases: Vec<String>,
    /// Owners of leases that live, each once.
    pub alive: Vec<Owner>,
    /// Owners of leases that cannot be seen from this machine, each once.
    pub unseen: Vec<Owner>,
}

impl Store {
    /// What SQLite finds wrong with the database; empty when it is whole. `thorough` compares indexes with
    /// their tables as well.
    pub async fn integrity(&self, thorough: bool) -> Result<Vec<String>, StoreError> {
        let pragma = if thorough { "PRAGMA integrity_check" } else { "PRAGMA quick_check" };
        let found: Vec<String> =
            sqlx::query_scalar(pragma).fetch_all(self.readers()).await.map_err(|e| self.classify(e))?;
        Ok(found.into_iter().filter(|line| line != "ok").collect())
    }

    /// Every current artifact, oldest first.
    pub async fn all_artifacts(&self) -> Result<Vec<Artifact>, StoreError> {
        sqlx::query_as("SELECT * FROM artifacts ORDER BY created_at")
            .fetch_all(self.readers())
            .await
            .map_err(|e| self.classify(e))
    }

    /// Looks at every open attempt and every lease.
    pub async fn health(&self) -> Result<Health, StoreError> {
        let facts = self.facts_now().await?;
        let used = |run: &str| facts.runs.iter().any(|fact| fact.id == run && fact.in_use);
        let open = facts.attempts.iter().filter(|(_, (run, open))| *open && !used(run));
        let abandoned = open.map(|(id, (run, _))| (id.clone(), run.clone())).collect();
        let owners: Vec<Owner> = sqlx::query_as("SELECT * FROM leases ORDER BY since")
            .fetch_all(self.readers())
            .await
            .map_err(|e| self.classify(e))?;
        let mut health = Health { abandoned, stale_leases: facts.stale_leases, ..Health::default() };
        for owner in owners {
            let list = match self.liveness(&owner) {
                Liveness::Alive => &mut health.alive,
                Liveness::Unknown => &mut health.unseen,
                Liveness::Dead => continue,
            };
            if list.iter().all(|known| known.owner != owner.owner) {
                list.push(owner);
            }
        }
        Ok(health)
    }
}
