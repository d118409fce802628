//! Rows of the database as other crates see them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sqlx::FromRow;

/// Makes an enum whose names in the database are its variants in lower case.
macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, sqlx::Type)]
        #[serde(rename_all = "lowercase")]
        #[sqlx(rename_all = "lowercase")]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// As stored and shown.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

states! {
    /// State of a run.
    RunState {
        Running = "running",
        /// Recorded as running, but its owner is dead. Seen, never stored.
        Interrupted = "interrupted",
        Succeeded = "succeeded",
        /// A stage failed.
        Failed = "failed",
        /// A gate refused.
        Refused = "refused",
        /// Stopped on request.
        Stopped = "stopped",
    }
}

states! {
    /// What can be asked of a run from another process.
    Request {
        /// Checkpoint and stop.
        Pause = "pause",
        /// Stop at once.
        Cancel = "cancel",
    }
}

states! {
    /// State of a stage within a run.
    StageState {
        Pending = "pending",
        Running = "running",
        Succeeded = "succeeded",
        /// Its artifact was there already.
        Cached = "cached",
        Failed = "failed",
        /// A gate refused.
        Refused = "refused",
        /// Something it needs failed, was refused or was skipped.
        Skipped = "skipped",
        Stopped = "stopped",
    }
}

impl StageState {
    /// Its artifact is there.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Succeeded | Self::Cached)
    }
}

states! {
    /// State of an attempt.
    AttemptState {
        /// The row is written, the process may or may not be there.
        Starting = "starting",
        Running = "running",
        Succeeded = "succeeded",
        Failed = "failed",
        Refused = "refused",
        /// Stopped on request.
        Stopped = "stopped",
        /// Gone without a verdict: killed, out of memory, a crash of the machine.
        Dead = "dead",
    }
}

impl AttemptState {
    /// Its end is not recorded.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, FromRow)]
pub struct Run {
    pub id: String,
    pub pipeline: String,
    /// The pipeline file as it was named.
    pub source: String,
    pub spec_hash: String,
    #[serde(skip)]
    pub plan: String,
    #[sqlx(try_from = "Vec<u8>")]
    pub cwd: Folder,
    pub command: String,
    pub state: RunState,
    pub created_at: i64,
    pub finished_at: Option<i64>,
}

/// A path from the database, any bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Folder(pub PathBuf);

impl From<Vec<u8>> for Folder {
    fn from(bytes: Vec<u8>) -> Self {
        use std::os::unix::ffi::OsStringExt;
        Self(std::ffi::OsString::from_vec(bytes).into())
    }
}

/// A stage of a run.
#[derive(Debug, Clone, PartialEq, Serialize, FromRow)]
pub struct Stage {
    pub run_id: String,
    pub position: i64,
    pub name: String,
    pub kind: String,
    pub fingerprint: String,
    pub state: StageState,
    /// JSON list: why it was to run.
    #[serde(skip)]
    pub reasons: String,
    pub forced: bool,
    pub message: String,
    pub started_at: Option<i64>,
    pub finished_at: Option<i64>,
}

/// One try at making a stage's artifact.
#[derive(Debug, Clone, PartialEq, Serialize, FromRow)]
pub struct Attempt {
    pub id: String,
    pub run_id: String,
    pub stage: String,
    pub fingerprint: String,
    /// 1, 2, … within the stage of the run.
    pub number: u32,
    #[serde(skip)]
    pub nonce: String,
    pub state: AttemptState,
    pub executor: String,
    #[serde(skip)]
    pub handle: Option<String>,
    pub resume_step: Option<i64>,
    pub class: Option<String>,
    pub code: Option<String>,
    pub message: Option<String>,
    pub help: Option<String>,
    pub seconds: f64,
    pub peak_rss_bytes: i64,
    pub created_at: i64,
    pub started_at: Option<i64>,
    pub finished_at: Option<i64>,
}

/// The current result for a fingerprint.
#[derive(Debug, Clone, PartialEq, Serialize, FromRow)]
pub struct Artifact {
    pub fingerprint: String,
    pub kind: String,
    /// Relative to the state folder.
    pub path: String,
    pub pipeline: String,
    pub stage: String,
    pub run_id: String,
    pub attempt_id: String,
    /// JSON object: what the fingerprint is made of.
    #[serde(skip)]
    pub parts: String,
    /// JSON list of [`ManifestFile`](crate::files::ManifestFile).
    #[serde(skip)]
    pub files: String,
    /// JSON: the stage's own summary.
    #[serde(skip)]
    pub summary: String,
    pub bytes: i64,
    /// Wall time over all attempts.
    pub seconds: f64,
    pub peak_rss_bytes: i64,
    pub created_at: i64,
}

/// A finished checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, FromRow)]
pub struct Checkpoint {
    pub attempt_id: String,
    pub step: i64,
    pub fingerprint: String,
    /// Relative to the state folder.
    pub path: String,
    pub created_at: i64,
}

/// One transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, FromRow)]
pub struct Transition {
    pub id: i64,
    pub run_id: String,
    pub stage: Option<String>,
    pub attempt_id: Option<String>,
    pub at: i64,
    pub kind: String,
    pub detail: String,
}
