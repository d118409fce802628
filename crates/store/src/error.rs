//! What can go wrong with the state folder.

use std::path::PathBuf;
use std::sync::Arc;

use miette::Diagnostic;
use thiserror::Error;

use crate::lease::Owner;

/// Errors of this crate. [`StoreError::exit_code`] is what a command ends with.
#[derive(Debug, Error, Diagnostic)]
pub enum StoreError {
    #[error("cannot use {}: {source}", path.display())]
    #[diagnostic(code(E0301), help("check that the state folder is writable and that its disk is not full"))]
    Io { path: PathBuf, source: std::io::Error },

    #[error("{} was made by a newer version of pipeline (schema {found}, this one knows {known})", path.display())]
    #[diagnostic(code(E0302), help("install the newer version, or use another --state-dir"))]
    NewerSchema { path: PathBuf, found: i64, known: i64 },

    #[error("{} is damaged: {detail}", path.display())]
    #[diagnostic(
        code(E0303),
        help(
            "restore it from a copy, or move the whole state folder away and run again: nothing in it is deleted"
        )
    )]
    Damaged { path: PathBuf, detail: String },

    #[error("{} was locked by another program for {seconds} s", path.display())]
    #[diagnostic(
        code(E0304),
        help("find who holds it (`fuser state.db`); no work is lost, `resume` goes on")
    )]
    Busy { path: PathBuf, seconds: u64 },

    #[error("the state database failed: {source}")]
    #[diagnostic(code(E0305), help("check that its disk is writable and not full; then `resume` goes on"))]
    Database { source: Arc<sqlx::Error> },

    #[error("run {run} belongs to a live process: {owner}")]
    #[diagnostic(code(E0306), help("wait for it, or stop it with `pipeline pause` or `pipeline cancel`"))]
    Locked { run: String, owner: Box<Owner> },

    #[error("there is no run {0:?}")]
    #[diagnostic(code(E0307), help("`pipeline runs` lists them"))]
    UnknownRun(String),

    #[error("{} does not match its manifest: {detail}", path.display())]
    #[diagnostic(code(E0308), help("the result was not taken; the stage runs again"))]
    Mismatch { path: PathBuf, detail: String },

    #[error("{} changed while it was being read", path.display())]
    #[diagnostic(code(E0309), help("wait until whatever writes it is done"))]
    ChangedWhileRead { path: PathBuf },

    #[error("the state database holds {what} that this version cannot read: {source}")]
    #[diagnostic(code(E0310), help("it was edited by hand, or this is a bug worth reporting"))]
    Unreadable { what: &'static str, source: serde_json::Error },

    #[error("there is no state folder at {}", .0.display())]
    #[diagnostic(code(E0311), help("`pipeline run` makes one; --state-dir names another"))]
    NoState(PathBuf),

    #[error("run {run} cannot be removed: {why}")]
    #[diagnostic(code(E0313), help("wait until that has ended, or stop it"))]
    InUse { run: String, why: String },

    #[error("the result of stage {stage} was removed while the run was being planned")]
    #[diagnostic(code(E0314), help("garbage was collected at the same moment; start it again"))]
    RemovedMeanwhile { stage: String },

    #[error("file locks do not work in {}: {detail}", path.display())]
    #[diagnostic(code(E0315), help("keep the state folder on a local disk: --state-dir names another"))]
    NoLocks { path: PathBuf, detail: String },

    #[error("the state folder's path is not UTF-8: {}", .0.display())]
    #[diagnostic(code(E0316), help("name another folder with --state-dir"))]
    OddPath(PathBuf),

    #[error("attempt {0} was ended by someone else")]
    #[diagnostic(code(E0312), help("another process took the run over; see `pipeline status`"))]
    Superseded(String),
}

impl StoreError {
    /// 4 when a live run holds the lock, 6 for everything about the state folder itself.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Locked { .. } | Self::InUse { .. } => 4,
            Self::UnknownRun(_) => 2,
            _ => 6,
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(source: sqlx::Error) -> Self {
        if crate::database::is_damage(&source) {
            return Self::Damaged { path: "state.db".into(), detail: source.to_string() };
        }
        Self::Database { source: Arc::new(source) }
    }
}
