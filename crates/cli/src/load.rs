//! From what was typed to a checked pipeline.

use std::path::{Path, PathBuf};

use spec::Pipeline;

use crate::args::{Changes, Global, OptionalSource};
use crate::failure::Failure;

/// Reads a pipeline file; the disk is not looked at otherwise.
pub fn pipeline(file: &Path, changes: &Changes) -> Result<Pipeline, Failure> {
    let name = file.display().to_string();
    let bytes = std::fs::read(file).map_err(|source| Failure::File { path: name.clone(), source })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        Failure::NotText { path: name.clone(), line }
    })?;
    Ok(spec::parse(&name, &text, &changes.set)?)
}

/// The file named, or that of the latest run.
pub async fn file_or_latest(file: Option<&Path>, global: &Global) -> Result<PathBuf, Failure> {
    if let Some(file) = file {
        return Ok(file.to_owned());
    }
    let help = "name the file, such as pipelines/quickstart.toml";
    let none =
        || Failure::usage("no pipeline file was named, and there is no earlier run to take it from", help);
    let store = store::Store::open_existing(&global.state_dir).await.map_err(|_| none())?;
    let latest = store.runs(1).await?.pop().ok_or_else(none)?;
    Ok(latest.cwd.0.join(latest.source))
}

/// The pipeline of a file that may be left out.
pub async fn optional(source: &OptionalSource, global: &Global) -> Result<Pipeline, Failure> {
    let file = file_or_latest(source.file.as_deref(), global).await?;
    pipeline(&file, &source.changes)
}
