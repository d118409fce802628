//! The result of a stage: `out/`, and the manifest that says it is whole.

use std::fs;
use std::path::Path;

use engine::protocol::{Manifest, ManifestFile, PROTOCOL, Request, Usage, file};
use serde::Serialize;

use crate::checkpoint::sync_tree;
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
    sync_tree(&out).map_err(StageError::file("write", &out))?;
    let mut files = Vec::new();
    list(&out, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let manifest = Manifest {
        protocol: PROTOCOL,
        nonce: request.nonce.clone(),
        fingerprint: request.stage.fingerprint.to_string(),
        files,
        summary,
        usage,
    };
    let path = attempt_dir.join(file::MANIFEST);
    let unfinished = attempt_dir.join(".manifest.json");
    write_json(&unfinished, &manifest)?;
    let sync = |path: &Path| fs::File::open(path)?.sync_all();
    sync(&unfinished).map_err(StageError::file("write", &unfinished))?;
    fs::rename(&unfinished, &path).map_err(StageError::file("rename", &unfinished))?;
    sync(attempt_dir).map_err(StageError::file("write", attempt_dir))
}

fn list(dir: &Path, prefix: &str, files: &mut Vec<ManifestFile>) -> Result<(), StageError> {
    for entry in fs::read_dir(dir).map_err(StageError::file("read", dir))? {
        let entry = entry.map_err(StageError::file("read", dir))?;
        let path = entry.path();
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if path.is_dir() {
            list(&path, &format!("{name}/"), files)?;
        } else {
            let bytes = entry.metadata().map_err(StageError::file("read", &path))?.len();
            let mut hasher = blake3::Hasher::new();
            hasher.update_mmap(&path).map_err(StageError::file("read", &path))?;
            files.push(ManifestFile { path: name, bytes, blake3: hasher.finalize().to_hex().to_string() });
        }
    }
    Ok(())
}
