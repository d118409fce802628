//! Where things are in a state folder.

use std::path::{Path, PathBuf};

/// A state folder, `.pipeline` by default; always absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// `root` may be relative to the current directory.
    pub fn new(root: &Path) -> std::io::Result<Self> {
        Ok(Self { root: std::path::absolute(root)? })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn database(&self) -> PathBuf {
        self.root.join("state.db")
    }

    /// Held with `flock` while the database is opened for writing, so that one process migrates it.
    pub(crate) fn open_lock(&self) -> PathBuf {
        self.root.join("state.lock")
    }

    /// One file for each live owner, held with `flock` as long as it lives.
    pub(crate) fn owners(&self) -> PathBuf {
        self.root.join("owners")
    }

    pub fn attempts(&self) -> PathBuf {
        self.root.join("attempts")
    }

    pub fn attempt(&self, id: &str) -> PathBuf {
        self.attempts().join(id)
    }

    pub fn artifacts(&self) -> PathBuf {
        self.root.join("artifacts")
    }

    /// Where garbage collection moves folders before it deletes them.
    pub(crate) fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    /// Name of an artifact's folder, relative to the state folder.
    pub fn artifact_name(kind: &str, fingerprint: &str) -> String {
        let short = fingerprint.get(..16).unwrap_or(fingerprint);
        format!("artifacts/{}-{short}", crate::id::slug(kind))
    }

    /// A path as stored in the database, made absolute.
    pub fn resolve(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }
}
