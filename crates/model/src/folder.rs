//! Where the weights of a model folder are: one file, or shards and their index.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::error::ModelError;
use crate::shard::{Named, Shard};
use crate::weights::read_json;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Open files, and the file of every tensor.
#[derive(Debug)]
pub struct Weights {
    /// The file, or the index.
    pub path: PathBuf,
    pub shards: Vec<Shard>,
    /// What does not agree between the index and the files.
    pub problems: Vec<String>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: Named<String>,
}

/// Checks the weights of a model folder without reading a value: that the files are there, as long as their
/// headers say, and hold the tensors that the index names.
///
/// # Errors
/// The same as when the model is loaded, as far as they do not depend on `config.json`.
pub fn check_weights(folder: &Path) -> Result<(), ModelError> {
    let Weights { path, problems, .. } = Weights::open_folder(folder)?;
    if problems.is_empty() { Ok(()) } else { Err(ModelError::Tensors { path, problems }) }
}

impl Weights {
    /// One file that is no part of anything.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        Ok(Self { path: path.to_owned(), shards: vec![Shard::open(path)?], problems: Vec::new() })
    }

    /// `model.safetensors`, or the shards that `model.safetensors.index.json` lists.
    pub fn open_folder(folder: &Path) -> Result<Self, ModelError> {
        let (single, index) = (folder.join(SINGLE), folder.join(INDEX));
        if single.is_file() {
            return Self::open(&single);
        }
        if index.is_file() {
            return Self::open_index(folder, index);
        }
        let has_pickle = ["pytorch_model.bin", "pytorch_model.bin.index.json"]
            .iter()
            .any(|name| folder.join(name).is_file());
        Err(ModelError::NoWeights { folder: folder.to_owned(), has_pickle })
    }

    fn open_index(folder: &Path, path: PathBuf) -> Result<Self, ModelError> {
        let Index { weight_map: Named { entries: map, twice } } = read_json(&path)?;
        let mut problems: Vec<_> = twice.iter().map(|name| format!("twice in the index: {name}")).collect();
        let mut shards = Vec::new();
        for file in map.values().collect::<BTreeSet<_>>() {
            if let Err(problem) = inside(folder, file) {
                problems.push(format!("{problem}: {file}"));
                continue;
            }
            let mut shard = Shard::open(&folder.join(file))?;
            shard.entries.retain(|name, _| match map.get(name) {
                Some(other) if other == file => true,
                Some(other) => {
                    problems.push(format!("twice: {name} is in {file}, but the index says {other}"));
                    false
                }
                None => {
                    problems.push(format!("not in the index: {name} of {file}"));
                    false
                }
            });
            problems.extend(lacking(&map, file, &shard));
            shards.push(shard);
        }
        Ok(Self { path, shards, problems })
    }
}

/// Tensors that the index says are in a file and that are not.
fn lacking(map: &BTreeMap<String, String>, file: &str, shard: &Shard) -> Vec<String> {
    let of_file = map.iter().filter(|(_, named)| *named == file);
    let absent = of_file.filter(|(name, _)| !shard.entries.contains_key(*name));
    absent.map(|(name, _)| format!("not in its file: {name}, which the index says is in {file}")).collect()
}

/// Whether an index may name this file: a plain name of a file in the folder. Links may not lead out of it,
/// except into the blobs of the Hub's own cache, whose snapshots consist of such links.
fn inside(folder: &Path, file: &str) -> Result<(), &'static str> {
    let mut parts = Path::new(file).components();
    let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    if !plain || file.contains(['/', '\\', '\0']) {
        return Err("not a plain file name in the index");
    }
    let (Ok(folder), Ok(target)) = (folder.canonicalize(), folder.join(file).canonicalize()) else {
        return Err("named by the index, but missing");
    };
    let snapshots = folder.parent().filter(|parent| parent.ends_with("snapshots"));
    let blobs = snapshots.and_then(Path::parent).map(|cache| cache.join("blobs"));
    match target.parent() {
        Some(parent) if parent == folder || Some(parent) == blobs.as_deref() => Ok(()),
        _ => Err("a link out of the folder"),
    }
}
