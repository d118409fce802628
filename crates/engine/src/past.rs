//! The store as planning sees it: what was made before, and what files hold.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use plan::{Artifact, FileHasher, Fingerprint, Parts, Past, Plan};
use store::{FileMemo, Store, StoreError, files};

use crate::error::EngineError;
use crate::protocol::file;

/// Hashes a plan's input files, reading only those that changed since the last time.
#[derive(Debug)]
pub struct Hasher {
    memo: FileMemo,
    store: Store,
}

impl Hasher {
    pub async fn load(store: &Store) -> Result<Self, EngineError> {
        Ok(Self { memo: FileMemo::load(store).await?, store: store.clone() })
    }

    /// Keeps the hashes for the next time.
    pub async fn save(&mut self) -> Result<(), EngineError> {
        Ok(self.memo.take_fresh().save(&self.store).await?)
    }
}

impl FileHasher for Hasher {
    fn hash(&mut self, path: &Path) -> io::Result<String> {
        self.memo.hash(path).map_err(into_io)
    }

    fn list(&mut self, path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
        self.memo.list(path).map_err(into_io)
    }
}

fn into_io(error: StoreError) -> io::Error {
    match error {
        StoreError::Io { source, .. } => source,
        other => io::Error::other(other),
    }
}

/// What the store knows about the stages of one plan.
pub(crate) struct Known {
    artifacts: BTreeMap<String, Artifact>,
    last_parts: BTreeMap<String, Parts>,
    seconds: BTreeMap<String, f64>,
}

impl Known {
    pub async fn load(store: &Store, plan: &Plan) -> Result<Self, EngineError> {
        let fingerprints: Vec<&str> = plan.stages.iter().map(|s| s.fingerprint.as_str()).collect();
        let (mut artifacts, mut seconds) = (BTreeMap::new(), BTreeMap::new());
        for artifact in store.artifacts(&fingerprints).await? {
            artifacts.insert(artifact.fingerprint.clone(), state_of(store, &artifact));
            seconds.insert(artifact.fingerprint, artifact.seconds);
        }
        let unknown = plan.stages.iter().filter(|s| !artifacts.contains_key(s.fingerprint.as_str()));
        let unknown: Vec<&str> = unknown.map(|stage| stage.name.as_str()).collect();
        let mut last_parts = BTreeMap::new();
        for (stage, parts) in store.last_parts(&plan.name, &unknown).await? {
            if let Ok(parts) = serde_json::from_str(&parts) {
                last_parts.insert(stage, parts);
            }
        }
        Ok(Self { artifacts, last_parts, seconds })
    }

    /// What making the result took.
    pub fn seconds(&self, fingerprint: &Fingerprint) -> f64 {
        self.seconds.get(fingerprint.as_str()).copied().unwrap_or(0.0)
    }

    /// Whether a result with this fingerprint is there, whole as far as sizes tell.
    pub fn is_present(&self, fingerprint: &Fingerprint) -> bool {
        self.artifacts.get(fingerprint.as_str()) == Some(&Artifact::Present)
    }
}

impl Past for Known {
    fn artifact(&self, _kind: &str, fingerprint: &Fingerprint) -> Artifact {
        self.artifacts.get(fingerprint.as_str()).cloned().unwrap_or(Artifact::Unknown)
    }

    fn last_parts(&self, stage: &str) -> Option<Parts> {
        self.last_parts.get(stage).cloned()
    }
}

/// Looks whether the files of an artifact are there, by size: contents are not read.
pub(crate) fn state_of(store: &Store, artifact: &store::record::Artifact) -> Artifact {
    let Ok(list) = artifact.file_list() else { return Artifact::Damaged };
    let folder = store.layout().resolve(&artifact.path);
    if !folder.join(file::MANIFEST).is_file() {
        return Artifact::Missing { path: format!("{}/{}", artifact.path, file::MANIFEST) };
    }
    match files::first_missing(&folder, &list) {
        None => Artifact::Present,
        Some(path) if folder.join(path).exists() => Artifact::Damaged,
        Some(path) => Artifact::Missing { path: format!("{}/{path}", artifact.path) },
    }
}
