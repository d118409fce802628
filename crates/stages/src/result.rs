//! The result of a stage: `out/`, and the manifest that says it is whole.

use std::fs;
use std::path::Path;

use engine::protocol::{Manifest, PROTOCOL, Request, Usage, file};
use serde::Serialize;
use store::files;

use crate::error::StageError;

/// Writes a JSON file for people and programs.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), StageError> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|error| StageError::file("write", path)(std::io::Error::other(error)))?;
    text.push('\n');
    fs::write(path, text).map_err(StageError::file("write", path))
}

/// Makes `out/` durable, hashes it and puts `manifest.json` in place.
pub fn seal(
    attempt_dir: &Path,
    request: &Request,
    summary: serde_json::Value,
    usage: Usage,
) -> Result<(), StageError> {
    let out = attempt_dir.join(file::OUT);
    files::sync_tree(&out)?;
    let manifest = Manifest {
        protocol: PROTOCOL,
        nonce: request.nonce.clone(),
        fingerprint: request.stage.fingerprint.to_string(),
        files: files::inventory(&out)?,
        summary,
        usage,
    };
    let path = attempt_dir.join(file::MANIFEST);
    let text = serde_json::to_vec_pretty(&manifest)
        .map_err(|error| StageError::file("write", &path)(std::io::Error::other(error)))?;
    Ok(files::write_atomic(&path, &text)?)
}
