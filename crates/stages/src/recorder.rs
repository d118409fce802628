//! What trainers report to: events for the engine, metrics for the result, checkpoints on disk.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::protocol::{Event, Request, file};
use serde_json::{Map, Value};
use train::TrainError;

use crate::checkpoint::Checkpoints;
use crate::error::StageError;
use crate::events::EventLog;

/// Progress is told at most this often; the last step always.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// Metrics up to a checkpoint's step, carried with it and, in the end, with the result.
const METRICS: &str = "metrics.jsonl";

/// The observer of everything that runs in a worker.
pub struct Recorder {
    attempt_dir: PathBuf,
    events: EventLog,
    checkpoints: Checkpoints,
    resume_from: Option<PathBuf>,
    stop: Arc<AtomicBool>,
    metrics: String,
    told: Option<Instant>,
}

impl Recorder {
    /// Takes over the metrics of the checkpoint that the attempt goes on from.
    pub fn new(
        attempt_dir: &Path,
        events: EventLog,
        request: &Request,
        keep: usize,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, StageError> {
        let metrics = match &request.resume_from {
            None => String::new(),
            Some(folder) => match fs::read_to_string(folder.join(METRICS)) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
                Err(error) => return Err(StageError::file("read", &folder.join(METRICS))(error)),
            },
        };
        Ok(Self {
            attempt_dir: attempt_dir.to_path_buf(),
            events,
            checkpoints: Checkpoints::new(attempt_dir.join(file::CHECKPOINTS), keep),
            resume_from: request.resume_from.clone(),
            stop,
            metrics,
            told: None,
        })
    }

    /// Writes `metrics.jsonl` into the result, if there are any.
    pub fn write_metrics(&self, out: &Path) -> Result<(), StageError> {
        if self.metrics.is_empty() {
            return Ok(());
        }
        let path = out.join(METRICS);
        fs::write(&path, &self.metrics).map_err(StageError::file("write", &path))
    }

    /// A finished checkpoint with whatever `write` puts into its folder, sealed.
    pub fn save(
        &mut self,
        step: u64,
        write: impl FnOnce(&Path) -> Result<(), StageError>,
    ) -> Result<PathBuf, StageError> {
        self.save_growing(step, |dir| {
            write(dir)?;
            Ok(store::files::seal(dir)?)
        })
    }

    /// The same without a seal, for what goes on being written.
    pub fn save_growing(
        &mut self,
        step: u64,
        write: impl FnOnce(&Path) -> Result<(), StageError>,
    ) -> Result<PathBuf, StageError> {
        let path = self.checkpoints.save(step, write)?;
        let relative = path.strip_prefix(&self.attempt_dir).unwrap_or(&path).to_path_buf();
        self.events.send(&Event::Checkpoint { step, path: relative });
        Ok(path)
    }
}

impl train::Recorder for Recorder {
    fn metrics(&mut self, step: u64, values: &[(&str, f64)]) {
        let mut line = Map::new();
        line.insert("step".into(), step.into());
        line.extend(values.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))));
        self.metrics.push_str(&Value::Object(line).to_string());
        self.metrics.push('\n');
        let values: BTreeMap<String, f64> =
            values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        self.events.send(&Event::Metrics { step, values });
    }

    fn progress(&mut self, step: u64, total: u64, unit: &str, message: &str) {
        let now = Instant::now();
        if step < total && self.told.is_some_and(|told| now - told < PROGRESS_EVERY) {
            return;
        }
        self.told = Some(now);
        self.events.send(&Event::Progress { step, total, unit: unit.into(), message: message.into() });
    }

    fn warning(&mut self, message: &str) {
        self.events.send(&Event::Warning { message: message.into() });
    }

    fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn resume_from(&self) -> Option<&Path> {
        self.resume_from.as_deref()
    }

    fn checkpoint(
        &mut self,
        step: u64,
        write: &mut dyn FnMut(&Path) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        let metrics = std::mem::take(&mut self.metrics);
        let saved = self.save(step, |dir| {
            write(dir)?;
            let path = dir.join(METRICS);
            fs::write(&path, &metrics).map_err(StageError::file("write", &path))
        });
        self.metrics = metrics;
        saved.map(drop).map_err(|error| match error {
            StageError::Train(error) => error,
            StageError::File { path, source, .. } => TrainError::Write { path, source },
            other => TrainError::Write {
                path: self.attempt_dir.clone(),
                source: std::io::Error::other(other.to_string()),
            },
        })
    }
}
