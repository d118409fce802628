//! Following an attempt's `events.jsonl`. Nothing in that file can make a run fail: what cannot be read is
//! passed over.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::protocol::{Event, FailureClass};
use crate::update::Failure;

/// Most that is read at once, and the longest line that is understood.
const CHUNK: u64 = 1 << 20;

/// What the worker said about its own end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    pub failed: Option<Failure>,
    pub interrupted: Option<u64>,
    /// Furthest step of a finished checkpoint.
    pub checkpoint: Option<u64>,
}

/// Reads complete new lines each time it is asked.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    nonce: String,
    offset: u64,
    partial: Vec<u8>,
    pub said: Said,
}

impl Tail {
    /// `nonce`: of the attempt; what another attempt said about its end is not believed.
    pub fn new(path: &Path, nonce: &str) -> Self {
        Self { path: path.into(), nonce: nonce.into(), offset: 0, partial: Vec::new(), said: Said::default() }
    }

    /// Starts a little before the end of the file, for looking at its newest events only.
    pub fn near_the_end(path: &Path, nonce: &str) -> Self {
        let length = std::fs::metadata(path).map_or(0, |m| m.len());
        Self { offset: length.saturating_sub(16 << 10), ..Self::new(path, nonce) }
    }

    /// Hands on every event written since the last call.
    pub fn poll(&mut self, mut on_event: impl FnMut(Event)) {
        while let Ok(chunk) = self.read_chunk() {
            if chunk.is_empty() {
                return;
            }
            self.partial.extend_from_slice(&chunk);
            let Some(end) = self.partial.iter().rposition(|&b| b == b'\n') else {
                if self.partial.len() as u64 > CHUNK {
                    self.partial.clear();
                }
                continue;
            };
            let rest = self.partial.split_off(end + 1);
            let lines = std::mem::replace(&mut self.partial, rest);
            for line in lines.split(|&b| b == b'\n').filter(|l| !l.is_empty()) {
                let Ok(event) = serde_json::from_slice::<Event>(line) else { continue };
                self.note(&event);
                on_event(event);
            }
        }
    }

    fn read_chunk(&mut self) -> std::io::Result<Vec<u8>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut chunk = Vec::new();
        self.offset += file.take(CHUNK).read_to_end(&mut chunk)? as u64;
        Ok(chunk)
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Failed { nonce, class, code, message, help } if *nonce == self.nonce => {
                let (class, code) = (*class, code.clone());
                self.said.failed =
                    Some(Failure { class, code, message: message.clone(), help: help.clone() });
            }
            Event::Interrupted { nonce, step } if *nonce == self.nonce => self.said.interrupted = Some(*step),
            Event::Checkpoint { step, .. } => self.said.checkpoint = self.said.checkpoint.max(Some(*step)),
            // A worker that is started again for the same attempt takes back what it said.
            Event::Started { nonce, .. } if *nonce == self.nonce => {
                self.said.failed = None;
                self.said.interrupted = None;
            }
            _ => {}
        }
    }
}

impl Said {
    /// Whether the worker said that a gate refused.
    pub fn refused(&self) -> bool {
        self.failed.as_ref().is_some_and(|f| f.class == FailureClass::Gate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn e44_half_lines_wait_and_garbage_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut tail = Tail::new(&path, "n");
        tail.poll(|_| panic!("no file yet"));
        let mut file = File::create(&path).unwrap();
        let lines = concat!(
            "{\"type\":\"progress\",\"step\":1,\"total\":2,\"unit\":\"steps\",\"message\":\"é\"}\n",
            "not json \u{0}\n{\"type\":\"unheard-of\"}\n",
            "{\"type\":\"metrics\",\"step\":1,\"values\":{\"loss\":null}}\n",
            "{\"type\":\"failed\",\"nonce\":\"other\",\"class\":\"user\",\"code\":\"\",\"message\":\"\",\"help\":\"\"}\n",
            "{\"type\":\"checkpoint\",\"step\":7,\"path\":\"checkpoints/step-00000007\"}\n",
            "{\"type\":\"interrupted\",\"nonce\":\"n\",\"step\":8}\n",
        );
        let mut seen = 0;
        for byte in lines.bytes() {
            file.write_all(&[byte]).unwrap();
            tail.poll(|_| seen += 1);
        }
        assert_eq!(seen, 4);
        let said = Said { failed: None, interrupted: Some(8), checkpoint: Some(7) };
        assert_eq!(tail.said, said, "another attempt's failure is not ours");
    }
}
