//! What the engine and a worker process say to each other, all of it through files in the attempt folder.
//!
//! ```text
//! attempts/<attempt_id>/request.json     engine → worker, written before the worker is started
//!                       events.jsonl     worker → engine, one [`Event`] a line, appended
//!                       log.txt          the worker's stdout and stderr; log.older.txt: what was cut from it
//!                       checkpoints/     step-00000040/, complete once the folder has this name
//!                       out/             the stage's result
//!                       manifest.json    written last, by rename: the result is whole
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plan::PlannedStage;
use serde::{Deserialize, Serialize};
use spec::StageConfig;
pub use store::files::ManifestFile;

/// Version of everything in this module; a worker refuses a request of another one.
pub const PROTOCOL: u32 = 2;

/// Names of files and folders in an attempt folder.
pub mod file {
    pub const REQUEST: &str = "request.json";
    pub const EVENTS: &str = "events.jsonl";
    pub const LOG: &str = "log.txt";
    /// What was cut from a log that grew too long.
    pub const OLDER_LOG: &str = "log.older.txt";
    pub const OUT: &str = "out";
    pub const CHECKPOINTS: &str = "checkpoints";
    pub const MANIFEST: &str = "manifest.json";
}

/// Exit codes of a worker. A signal, or any other code, is an infrastructure failure.
pub mod exit {
    /// `manifest.json` is in place.
    pub const FINISHED: i32 = 0;
    /// An [`Event::Failed`](super::Event::Failed) says why.
    pub const FAILED: i32 = 1;
    /// A gate refused: the result is known and not good enough.
    pub const GATE: i32 = 8;
    /// Stopped on request, at a finished checkpoint or where it keeps none.
    pub const INTERRUPTED: i32 = 75;
}

/// Code of a failure that says: an input is not what its manifest says. The engine then looks for itself, and
/// has what is damaged made again.
pub const DAMAGED_INPUT: &str = "E0902";

/// Environment variables set for a worker and thus for all its children.
pub mod env {
    pub const RUN_ID: &str = "PIPELINE_RUN_ID";
    pub const ATTEMPT: &str = "PIPELINE_ATTEMPT";
}

/// What a worker is to do: `request.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// [`PROTOCOL`] of the engine that wrote it.
    pub protocol: u32,
    pub run_id: String,
    pub attempt_id: String,
    /// 1 for the first attempt of a stage in a run.
    pub attempt: u32,
    /// Echoed in events and manifest, so that files of another attempt are never taken for this one's.
    pub nonce: String,
    pub stage: PlannedStage,
    /// All stages that it needs, directly or not, in the plan's order.
    pub ancestors: Vec<String>,
    /// Their results by stage name.
    pub inputs: BTreeMap<String, Input>,
    /// Folder of the newest finished checkpoint of an attempt with the same fingerprint.
    pub resume_from: Option<PathBuf>,
    /// `cpu` or `cuda:0`.
    pub device: String,
    /// CPU threads that the worker may use.
    pub threads: usize,
    /// Cost of the ancestors; never part of a result, only of a report's usage section.
    pub usage: BTreeMap<String, Usage>,
}

impl Request {
    /// A worker that is started again for the same attempt, by a scheduler that took its place away, goes on
    /// from the newest checkpoint that it has finished itself and that is still what it was.
    pub fn go_on_in(&mut self, attempt_folder: &Path) {
        let entries = std::fs::read_dir(attempt_folder.join(file::CHECKPOINTS)).into_iter().flatten();
        let finished = entries.flatten().map(|entry| entry.path()).filter(|path| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"step-"))
        });
        let mut finished: Vec<PathBuf> = finished.collect();
        finished.sort();
        let newest = finished.into_iter().rev().find(|path| store::files::check_seal(path).is_ok());
        self.resume_from = newest.or(self.resume_from.take());
    }
}

/// The artifact of an ancestor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Input {
    pub kind: String,
    /// Absolute.
    pub path: PathBuf,
    pub config: StageConfig,
}

/// What a stage cost, over all its attempts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Wall time.
    pub seconds: f64,
    /// Highest resident set of the worker process.
    pub peak_rss_bytes: u64,
}

/// One line of `events.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Event {
    /// First line of a worker.
    Started {
        nonce: String,
        pid: u32,
    },
    /// `step` of `total` `unit`s are done.
    Progress {
        step: u64,
        total: u64,
        unit: String,
        message: String,
    },
    /// Numbers of one step, by name.
    Metrics {
        step: u64,
        values: BTreeMap<String, f64>,
    },
    /// A checkpoint is finished; `path` is relative to the attempt folder.
    Checkpoint {
        step: u64,
        path: PathBuf,
    },
    Warning {
        message: String,
    },
    /// The manifest is in place.
    Finished {
        nonce: String,
        summary: serde_json::Value,
    },
    Failed {
        nonce: String,
        class: FailureClass,
        code: String,
        message: String,
        help: String,
    },
    /// Stopped on request after `step`.
    Interrupted {
        nonce: String,
        step: u64,
    },
}

/// Who can mend a failure, which decides what happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// The user: configuration or data. Never retried by itself.
    User,
    /// Nobody in particular: killed, out of memory, disk, network. Retried with back-off.
    Infra,
    /// A check on the result said no; what depends on it is skipped. Never retried by itself.
    Gate,
    /// A bug of ours. Never retried by itself.
    Internal,
}

impl FailureClass {
    /// As written in events and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Infra => "infra",
            Self::Gate => "gate",
            Self::Internal => "internal",
        }
    }
}

/// `manifest.json`: the result is whole, and this is what it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub protocol: u32,
    pub nonce: String,
    pub fingerprint: String,
    /// Every file under `out/`, sorted by path.
    pub files: Vec<ManifestFile>,
    /// What a report reads.
    pub summary: serde_json::Value,
    /// Of this attempt alone, as the worker measured it.
    pub usage: Usage,
}
