//! Garbage collection: what no kept run reaches, and its removal.
//!
//! Rows go first, in one transaction, and folders afterwards, so that killed anywhere the database never
//! points to something that this removed. A folder is moved to `trash/` while the write lock is held: nobody
//! can begin to make an artifact, or record an attempt, between the look and the move.

mod facts;
mod folders;
mod reach;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::database::Store;
use crate::error::StoreError;
use crate::{fault, id};

pub use folders::size_of;
pub use reach::{Facts, Policy, Removal, RunFact, StageFact};

/// What a folder that goes was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    Artifact,
    Attempt,
    /// A replaced result, a checkpoint that nothing goes on from, a temporary file.
    Leftover,
}

/// A folder or file that goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    pub what: What,
    /// Relative to the state folder.
    pub path: PathBuf,
    pub bytes: u64,
}

/// A run that goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dropped {
    pub run: String,
    /// Milliseconds since 1970, of its end or else its start.
    pub at: i64,
}

/// What is removed, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Collection {
    pub runs: Vec<Dropped>,
    pub items: Vec<Item>,
}

impl Store {
    /// What [`Store::collect`] would remove now.
    pub async fn collectable(&self, policy: Policy) -> Result<Collection, StoreError> {
        let seen = folders::list(self.layout())?;
        let facts = self.facts_now().await?;
        let removal = reach::removal(&facts, policy, id::now_ms());
        let unknown = folders::unknown(&seen, &facts, &removal);
        let root = self.layout().root().to_owned();
        let measured = tokio::task::spawn_blocking(move || {
            let item = |(what, path): (What, PathBuf)| Item { what, bytes: size_of(&root.join(&path)), path };
            unknown.into_iter().map(item).collect()
        });
        let items = measured.await.map_err(|e| StoreError::io(self.layout().root())(e.into()))?;
        Ok(Collection { runs: dropped(&facts, &removal), items })
    }

    /// Removes what no kept run reaches. Killed anywhere, it can be called again.
    pub async fn collect(&self, policy: Policy) -> Result<Collection, StoreError> {
        let mut tx = self.begin().await?;
        let facts = self.facts(&mut tx).await?;
        let removal = reach::removal(&facts, policy, id::now_ms());
        facts::delete(&mut tx, &removal).await?;
        tx.commit().await.map_err(|e| self.classify(e))?;
        fault::point("gc.rows");
        let moved = self.move_to_trash().await?;
        fault::point("gc.moved");
        let trash = self.layout().trash();
        let deleted = tokio::task::spawn_blocking(move || folders::empty(&trash, moved));
        let items = deleted.await.map_err(|e| StoreError::io(self.layout().root())(e.into()))??;
        Ok(Collection { runs: dropped(&facts, &removal), items })
    }

    async fn move_to_trash(&self) -> Result<Vec<(What, PathBuf, PathBuf)>, StoreError> {
        // Nothing is written: the transaction is there for its lock.
        let mut tx = self.begin().await?;
        let seen = folders::list(self.layout())?;
        let facts = self.facts(&mut tx).await?;
        let unknown = folders::unknown(&seen, &facts, &Removal::default());
        folders::move_all(self.layout(), unknown)
    }

    /// Forgets a run: its row, stages, attempts and history. Its folders are left to [`Store::collect`].
    ///
    /// # Errors
    /// [`StoreError::Locked`] or [`StoreError::InUse`] while something alive works on it or with it.
    pub async fn remove_run(&self, run_id: &str) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        if let Some(owner) = self.live_owner(&mut tx, run_id).await? {
            return Err(StoreError::Locked { run: run_id.to_owned(), owner: Box::new(owner) });
        }
        let facts = self.facts(&mut tx).await?;
        let in_use = |why: &str| StoreError::InUse { run: run_id.to_owned(), why: why.to_owned() };
        let unknown = || StoreError::UnknownRun(run_id.to_owned());
        let run = facts.runs.iter().find(|run| run.id == run_id).ok_or_else(unknown)?;
        if run.in_use {
            return Err(in_use("a worker of it runs, or may"));
        }
        if let Some(other) = facts.runs.iter().find(|other| other.in_use && reach::goes_on_from(other, run)) {
            return Err(in_use(&format!("run {} goes on from a checkpoint of it", other.id)));
        }
        let removal = Removal { runs: vec![run_id.to_owned()], ..Removal::default() };
        facts::delete(&mut tx, &removal).await?;
        tx.commit().await.map_err(|e| self.classify(e))
    }
}

fn dropped(facts: &Facts, removal: &Removal) -> Vec<Dropped> {
    let gone = facts.runs.iter().filter(|run| removal.runs.contains(&run.id));
    gone.map(|run| Dropped { run: run.id.clone(), at: run.at }).collect()
}

/// `path` below `root`, as items name it.
fn below(root: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(root).unwrap_or(path).to_owned()
}
