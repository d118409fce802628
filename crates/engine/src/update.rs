//! What an engine tells while it runs, in order, and what it says at the end.

use std::path::PathBuf;
use std::time::Duration;

use plan::Decision;
use serde::Serialize;
use store::record::{RunState, StageState};
use tokio::sync::mpsc;

use crate::control::Cause;
use crate::error::code;
use crate::protocol::{Event, FailureClass};

/// Where updates go. Nobody needs to listen.
pub type Updates = mpsc::UnboundedSender<Update>;

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum Update {
    RunStarted {
        run_id: String,
        decisions: Vec<Decision>,
    },
    /// Another run is making this stage's artifact; `owner` says which process.
    StageWaiting {
        stage: String,
        owner: String,
    },
    /// A worker was started, on a device or by a scheduler. `resume_step`: the checkpoint it goes on from.
    StageStarted {
        stage: String,
        attempt: u32,
        device: String,
        resume_step: Option<u64>,
        log: PathBuf,
    },
    /// A worker of a run whose driver died is still at it, and is followed from here on.
    StageAdopted {
        stage: String,
        attempt: u32,
        log: PathBuf,
    },
    /// Something about the run that its user should know: a scheduler does not answer. Said once.
    Notice(String),
    /// Where its job is, or what it waits for.
    StageIs {
        stage: String,
        whereabouts: Option<String>,
    },
    /// A line of the worker's `events.jsonl`.
    Worker {
        stage: String,
        event: Event,
    },
    /// An infrastructure failure; the next attempt starts after `delay`.
    StageRetrying {
        stage: String,
        message: String,
        delay: Duration,
    },
    StageEnded(StageOutcome),
}

/// How a stage ended in this run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageOutcome {
    pub stage: String,
    pub kind: String,
    pub state: StageState,
    /// Wall time over all attempts of the result; 0 where there is none.
    pub seconds: f64,
    pub failure: Option<Failure>,
}

/// Why a stage failed, was refused, or was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub class: FailureClass,
    pub code: String,
    pub message: String,
    pub help: String,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunOutcome {
    pub run_id: String,
    pub state: RunState,
    /// In the plan's order.
    pub stages: Vec<StageOutcome>,
    #[serde(skip)]
    pub(crate) cause: Cause,
}

impl RunOutcome {
    /// 0 ok, 1 a stage failed, 5 no worker could be started, 8 a gate refused, 130 or 143 stopped.
    pub fn exit_code(&self) -> u8 {
        let failed = || self.stages.iter().filter(|s| s.state == StageState::Failed);
        match (self.state, self.cause) {
            (RunState::Succeeded, _) => 0,
            (RunState::Refused, _) => 8,
            (RunState::Stopped, Cause::Interrupt | Cause::Request) => 130,
            (RunState::Stopped, Cause::Terminate) => 143,
            _ if failed().all(|s| s.failure.as_ref().is_some_and(|f| f.code == code::CANNOT_START)) => 5,
            _ => 1,
        }
    }
}
