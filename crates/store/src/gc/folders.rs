//! Folders that no row knows, and their way out through `trash/`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::reach::{Facts, Removal};
use super::{Item, What, below};
use crate::error::StoreError;
use crate::id;
use crate::layout::Layout;

/// What lies in a state folder.
#[derive(Debug, Default)]
pub(super) struct Seen {
    artifacts: Vec<String>,
    attempts: Vec<String>,
    /// Inside attempts: results that were replaced, checkpoints, temporary files; with the attempt.
    inside: Vec<(String, PathBuf)>,
    trash: Vec<PathBuf>,
}

/// Lists what could go. For the dry run this must come before the rows are read: an attempt's row is older
/// than its folder, and an artifact's folder has an open attempt until it has a row.
pub(super) fn list(layout: &Layout) -> Result<Seen, StoreError> {
    let root = layout.root();
    let mut seen = Seen {
        artifacts: names(&layout.artifacts(), Kind::Folder)?,
        attempts: names(&layout.attempts(), Kind::Folder)?,
        ..Seen::default()
    };
    for attempt in &seen.attempts {
        let folder = layout.attempt(attempt);
        let checkpoints = folder.join("checkpoints");
        let temporary = names(&folder, Kind::Any)?.into_iter().filter(|name| name.starts_with(".tmp-"));
        let mut inside: Vec<PathBuf> = temporary.map(|name| folder.join(name)).collect();
        inside.extend(Some(folder.join("replaced")).filter(|path| path.exists()));
        inside.extend(names(&checkpoints, Kind::Any)?.into_iter().map(|name| checkpoints.join(name)));
        seen.inside.extend(inside.into_iter().map(|path| (attempt.clone(), below(root, &path))));
    }
    let trash = layout.trash();
    seen.trash = names(&trash, Kind::Any)?.into_iter().map(|name| below(root, &trash.join(name))).collect();
    Ok(seen)
}

#[derive(PartialEq)]
enum Kind {
    Folder,
    Any,
}

/// Sorted names in a folder, empty when it is not there. Names that this program never gives are left alone.
fn names(folder: &Path, kind: Kind) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io(folder)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::io(folder))?;
        let wanted = kind == Kind::Any || entry.file_type().is_ok_and(|t| t.is_dir());
        names.extend(entry.file_name().into_string().ok().filter(|_| wanted));
    }
    names.sort();
    Ok(names)
}

/// What no row knows once `removal` is done.
pub(super) fn unknown(seen: &Seen, facts: &Facts, removal: &Removal) -> Vec<(What, PathBuf)> {
    let gone: BTreeSet<&str> = removal.runs.iter().map(String::as_str).collect();
    let artifacts: Vec<_> = facts.artifacts.iter().filter(|(f, _)| !removal.artifacts.contains(f)).collect();
    let paths: BTreeSet<&str> = artifacts.iter().map(|(_, (path, _))| path.as_str()).collect();
    // The log of the attempt that made a result is the result's.
    let makers: BTreeSet<&str> = artifacts.iter().map(|(_, (_, attempt))| attempt.as_str()).collect();
    let row = |id: &str| facts.attempts.get(id).filter(|(run, _)| !gone.contains(run.as_str()));
    let known = |id: &str| row(id).is_some() || makers.contains(id);
    let open = |id: &str| row(id).is_some_and(|(_, open)| *open);
    let making = |name: &str| {
        let of_kept = |f: &&String| !removal.artifacts.contains(f);
        facts.in_making.iter().filter(of_kept).any(|f| name.ends_with(&format!("-{}", short(f))))
    };
    let mut items = Vec::new();
    for name in &seen.artifacts {
        let path = format!("artifacts/{name}");
        if !paths.contains(path.as_str()) && !making(name) {
            items.push((What::Artifact, PathBuf::from(path)));
        }
    }
    let attempts = seen.attempts.iter().filter(|id| !known(id));
    items.extend(attempts.map(|id| (What::Attempt, Path::new("attempts").join(id))));
    let checkpoint = |path: &Path| path.to_str().is_some_and(|path| facts.checkpoints.contains_key(path));
    let left = seen
        .inside
        .iter()
        .filter(|(id, path)| known(id) && !open(id) && !(checkpoint(path) && row(id).is_some()));
    items.extend(left.map(|(_, path)| (What::Leftover, path.clone())));
    items.extend(seen.trash.iter().map(|path| (What::Leftover, path.clone())));
    items
}

fn short(fingerprint: &str) -> &str {
    fingerprint.get(..16).unwrap_or(fingerprint)
}

/// Moves all of it to `trash/`; gives where each one is now.
pub(super) fn move_all(
    layout: &Layout,
    items: Vec<(What, PathBuf)>,
) -> Result<Vec<(What, PathBuf, PathBuf)>, StoreError> {
    let trash = layout.trash();
    fs::create_dir_all(&trash).map_err(StoreError::io(&trash))?;
    let mut moved = Vec::with_capacity(items.len());
    for (what, path) in items {
        let (from, to) = (layout.root().join(&path), trash.join(id::random_hex(16)));
        if from.parent() == Some(&trash) {
            moved.push((what, path, from));
            continue;
        }
        match fs::rename(&from, &to) {
            Ok(()) => moved.push((what, path, to)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::io(from)(error)),
        }
    }
    Ok(moved)
}

/// Deletes what was moved to `trash/`.
pub(super) fn empty(trash: &Path, moved: Vec<(What, PathBuf, PathBuf)>) -> Result<Vec<Item>, StoreError> {
    let mut items = Vec::with_capacity(moved.len());
    for (what, path, place) in moved {
        let bytes = size_of(&place);
        let deleted = if place.is_dir() { fs::remove_dir_all(&place) } else { fs::remove_file(&place) };
        match deleted {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::io(place)(error));
            }
            _ => items.push(Item { what, path, bytes }),
        }
    }
    // Not if another process has something in it.
    let _ = fs::remove_dir(trash);
    Ok(items)
}

/// Bytes of all files in a folder, or of a file; what cannot be seen counts nothing.
pub fn size_of(path: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(path) else { return 0 };
    if !meta.is_dir() {
        return meta.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size_of(&entry.path())).sum()
}
