//! What a stage's result depends on, part by part, and one hash over it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use spec::stage::{FileRole, InputFile, Provider};
use spec::{Effect, Pipeline, Section, Stage, StageConfig};

use crate::error::PlanError;
use crate::parts::Parts;
use crate::planned::Fingerprint;

/// The door to the disk.
pub trait FileHasher {
    /// BLAKE3 of a file's content, as 64 hex digits.
    fn hash(&mut self, path: &Path) -> io::Result<String>;

    /// Relative paths of all files in a folder, at any depth, sorted; `None` when `path` is a file.
    fn list(&mut self, path: &Path) -> io::Result<Option<Vec<PathBuf>>>;
}

/// Version of what stages of a kind make. Raised when the same configuration starts to give another result;
/// everything made by the old version then runs again.
pub fn format_version(kind: &str) -> u32 {
    let _ = kind;
    1
}

/// Files of a model folder that are read, as far as they are there.
const MODEL_FILES: [&str; 5] =
    ["config.json", "generation_config.json", WEIGHTS, "tokenizer.json", "tokenizer_config.json"];

/// The weights; in a folder without this file they are in shards that an index lists.
const WEIGHTS: &str = "model.safetensors";

/// Whether a file of a model folder is read. Every safetensors file of a folder in shards counts: the names
/// of shards are free, and that a stage runs again for a file too many is better than not for one too few.
fn is_read(name: &Path, sharded: bool) -> bool {
    let text = name.to_str().unwrap_or_default();
    let in_root = name.components().count() == 1;
    let part = text == "model.safetensors.index.json" || text.ends_with(".safetensors");
    MODEL_FILES.contains(&text) || (sharded && in_root && part)
}

/// All parts of a stage's fingerprint. A part's value may be shown to people.
pub(crate) fn parts(
    pipeline: &Pipeline,
    stage: &Stage,
    seed: u64,
    inputs: impl Iterator<Item = (String, Fingerprint)>,
    files: &mut dyn FileHasher,
) -> Result<Parts, PlanError> {
    let kind = stage.config.kind();
    let mut parts = BTreeMap::from([("format".to_owned(), format!("{kind}/{}", format_version(kind)))]);
    add_section(&mut parts, "config", stage.config.section());
    if let StageConfig::Ppo(_) = stage.config {
        add_section(&mut parts, "lora", &pipeline.lora);
    }
    if computes_with_model(&stage.config) {
        parts.insert("model.dtype".into(), pipeline.model.dtype.as_str().into());
    }
    if stage.config.uses_seed() {
        parts.insert("seed".into(), seed.to_string());
    }
    parts.extend(inputs.map(|(name, fingerprint)| (format!("input.{name}"), fingerprint.0)));
    for file in stage.files(&pipeline.model.base) {
        let added = add_file(&mut parts, &file, files);
        added.map_err(|(path, source)| PlanError::Unreadable {
            stage: stage.name.clone(),
            key: file.key.clone(),
            path,
            source,
        })?;
    }
    Ok(parts.into())
}

/// Whether weights in `[model] dtype` take part in the stage.
fn computes_with_model(config: &StageConfig) -> bool {
    match config {
        StageConfig::Prepare(_) | StageConfig::Rouge(_) | StageConfig::Report(_) => false,
        StageConfig::Judge(judge) => judge.provider == Provider::RewardModel,
        _ => true,
    }
}

fn add_section(parts: &mut BTreeMap<String, String>, prefix: &str, section: &dyn Section) {
    section.each(&mut |key, value| {
        if key.rule.effect == Effect::Result {
            parts.insert(format!("{prefix}.{}", key.name), value.to_json().to_string());
        }
    });
}

fn add_file(
    parts: &mut BTreeMap<String, String>,
    file: &InputFile,
    files: &mut dyn FileHasher,
) -> Result<(), (PathBuf, io::Error)> {
    let root = Path::new(&file.path);
    let Some(mut names) = files.list(root).map_err(|error| (root.to_owned(), error))? else {
        let hash = files.hash(root).map_err(|error| (root.to_owned(), error))?;
        parts.insert(format!("file.{}", file.path), hash);
        return Ok(());
    };
    if file.role == FileRole::Model {
        let sharded = !names.iter().any(|name| name == Path::new(WEIGHTS));
        names.retain(|name| is_read(name, sharded));
    }
    for name in names {
        let path = root.join(&name);
        let hash = files.hash(&path).map_err(|error| (path.clone(), error))?;
        parts.insert(format!("file.{}", path.display()), hash);
    }
    Ok(())
}

/// One hash over all parts, each with its length, so that no two sets of parts are written the same way.
pub(crate) fn of<'a>(parts: impl Iterator<Item = (&'a str, &'a str)>) -> Fingerprint {
    let mut hasher = blake3::Hasher::new_derive_key("hydra-pipeline 2026 stage fingerprint");
    for text in parts.flat_map(|(name, value)| [name, value]) {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    Fingerprint(hasher.finalize().to_hex().to_string())
}
