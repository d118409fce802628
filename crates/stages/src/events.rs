//! The worker's side of `events.jsonl`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use engine::protocol::{Event, file};

use crate::error::StageError;

/// Appends events, one whole line per write.
#[derive(Debug)]
pub struct EventLog {
    file: File,
}

impl EventLog {
    pub fn open(attempt_dir: &Path) -> Result<Self, StageError> {
        let path = attempt_dir.join(file::EVENTS);
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(StageError::file("write", &path))?;
        Ok(Self { file })
    }

    /// Best effort: news that cannot be written never fails a stage; its result is the manifest.
    pub fn send(&mut self, event: &Event) {
        let Ok(mut line) = serde_json::to_vec(event) else { return };
        line.push(b'\n');
        if let Err(error) = self.file.write_all(&line) {
            tracing::warn!(%error, "an event was lost");
        }
    }
}
