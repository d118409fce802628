//! Files that appear whole or not at all, and what a folder holds.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::StoreError;

/// One file of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Relative to the result's folder, `/` between parts.
    pub path: String,
    pub bytes: u64,
    /// 64 hex digits.
    pub blake3: String,
}

/// Writes `bytes` to `path` durably: a neighbouring temporary file, fsync, rename, fsync of the folder.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    replace(path, bytes, true).and_then(|()| sync_dir(folder_of(path))).map_err(StoreError::io(path))
}

/// As [`write_atomic`], for what needs to survive a crash of this process but not one of the machine.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    replace(path, bytes, false).map_err(StoreError::io(path))
}

fn replace(path: &Path, bytes: &[u8], durable: bool) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".tmp-").tempfile_in(folder_of(path))?;
    file.write_all(bytes)?;
    if durable {
        file.as_file().sync_all()?;
    }
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the names in `folder` durable.
pub fn sync_dir(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes everything under `folder` durable: files, then folders.
pub fn sync_tree(folder: &Path) -> Result<(), StoreError> {
    for entry in read_dir(folder)? {
        let path = entry.path();
        let kind = entry.file_type().map_err(StoreError::io(&path))?;
        if kind.is_dir() {
            sync_tree(&path)?;
        } else if kind.is_file() {
            File::open(&path).and_then(|f| f.sync_all()).map_err(StoreError::io(&path))?;
        }
    }
    sync_dir(folder).map_err(StoreError::io(folder))
}

/// BLAKE3 of a file's content, as hex.
pub fn hash_file(path: &Path) -> Result<String, StoreError> {
    let mut hasher = blake3::Hasher::new();
    // Not by mmap: a file that is cut short meanwhile must be an error, not a SIGBUS.
    File::open(path).and_then(|f| hasher.update_reader(f).map(drop)).map_err(StoreError::io(path))?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Every regular file under `folder`, sorted by path. Symbolic links and special files are refused: a
/// result that points elsewhere could change later.
pub fn inventory(folder: &Path) -> Result<Vec<ManifestFile>, StoreError> {
    let mut files = Vec::new();
    walk(folder, folder, &mut |relative, path, bytes| {
        files.push(ManifestFile { path: relative, bytes, blake3: hash_file(path)? });
        Ok(())
    })?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Checks that `folder` holds exactly `files`, by size and content.
pub fn verify(folder: &Path, files: &[ManifestFile]) -> Result<(), StoreError> {
    let found = inventory(folder)?;
    let mismatch = |detail: String| StoreError::Mismatch { path: folder.to_owned(), detail };
    let mut wanted: Vec<&ManifestFile> = files.iter().collect();
    wanted.sort_by(|a, b| a.path.cmp(&b.path));
    for file in &wanted {
        match found.binary_search_by(|f| f.path.cmp(&file.path)) {
            Err(_) => return Err(mismatch(format!("{} is missing", file.path))),
            Ok(i) if found[i] != **file => {
                let (bytes, there) = (file.bytes, found[i].bytes);
                let how = if bytes == there {
                    "content differs".into()
                } else {
                    format!("{there} of {bytes} bytes")
                };
                return Err(mismatch(format!("{}: {how}", file.path)));
            }
            Ok(_) => {}
        }
    }
    match found.iter().find(|f| wanted.binary_search_by(|w| w.path.cmp(&f.path)).is_err()) {
        Some(extra) => Err(mismatch(format!("{} is not in it", extra.path))),
        None => Ok(()),
    }
}

/// Name of the seal in a folder that has one.
const SEAL: &str = "seal.json";

/// Notes in `folder` what every file in it is.
pub fn seal(folder: &Path) -> Result<(), StoreError> {
    let files = inventory(folder)?;
    let text =
        serde_json::to_vec(&files).map_err(|source| StoreError::Unreadable { what: "a seal", source })?;
    write_whole(&folder.join(SEAL), &text)
}

/// Checks every file that the seal of `folder` names, by content. A folder without a seal passes.
pub fn check_seal(folder: &Path) -> Result<(), StoreError> {
    let path = folder.join(SEAL);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(StoreError::io(&path))?,
    };
    let mismatch = |detail: String| StoreError::Mismatch { path: folder.to_owned(), detail };
    let files: Vec<ManifestFile> =
        serde_json::from_slice(&text).map_err(|error| mismatch(format!("{SEAL} cannot be read: {error}")))?;
    check_content(folder, &files)
}

/// Checks that every one of `files` is in `folder`, by content.
pub fn check_content(folder: &Path, files: &[ManifestFile]) -> Result<(), StoreError> {
    for file in files {
        let path = folder.join(&file.path);
        if hash_file(&path).ok().as_ref() != Some(&file.blake3) {
            let detail = format!("{} is not what it was", file.path);
            return Err(StoreError::Mismatch { path: folder.to_owned(), detail });
        }
    }
    Ok(())
}

/// The first of `files` that is missing under `folder` or has another size; reads no content.
pub fn first_missing<'a>(folder: &Path, files: &'a [ManifestFile]) -> Option<&'a str> {
    let intact = |f: &ManifestFile| {
        fs::symlink_metadata(folder.join(&f.path)).is_ok_and(|m| m.is_file() && m.len() == f.bytes)
    };
    files.iter().find(|f| !intact(f)).map(|f| f.path.as_str())
}

fn read_dir(folder: &Path) -> Result<Vec<fs::DirEntry>, StoreError> {
    let read = || fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>();
    let mut entries = read().map_err(StoreError::io(folder))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    Ok(entries)
}

fn walk(
    root: &Path,
    folder: &Path,
    visit: &mut dyn FnMut(String, &Path, u64) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    for entry in read_dir(folder)? {
        let path = entry.path();
        let meta = fs::symlink_metadata(&path).map_err(StoreError::io(&path))?;
        if meta.is_dir() {
            walk(root, &path, visit)?;
            continue;
        }
        let name = path.strip_prefix(root).ok().and_then(Path::to_str).filter(|_| meta.is_file());
        let Some(name) = name else {
            let detail = format!("{} is not a regular file with a UTF-8 name", path.display());
            return Err(StoreError::Mismatch { path: root.to_owned(), detail });
        };
        visit(name.to_owned(), &path, meta.len())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verify_notices_every_kind_of_change() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/b.txt"), "hello").unwrap();
        fs::write(dir.path().join("c"), "").unwrap();
        let files = inventory(dir.path()).unwrap();
        assert_eq!(files.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(), ["a/b.txt", "c"]);
        verify(dir.path(), &files).unwrap();
        assert_eq!(first_missing(dir.path(), &files), None);

        fs::write(dir.path().join("a/b.txt"), "hellO").unwrap();
        assert!(verify(dir.path(), &files).unwrap_err().to_string().contains("a/b.txt: content differs"));
        fs::write(dir.path().join("a/b.txt"), "hell").unwrap();
        assert!(verify(dir.path(), &files).unwrap_err().to_string().contains("4 of 5 bytes"));
        assert_eq!(first_missing(dir.path(), &files), Some("a/b.txt"));
        fs::remove_file(dir.path().join("a/b.txt")).unwrap();
        assert!(verify(dir.path(), &files).unwrap_err().to_string().contains("a/b.txt is missing"));
        fs::write(dir.path().join("a/b.txt"), "hello").unwrap();
        fs::write(dir.path().join("extra"), "").unwrap();
        assert!(verify(dir.path(), &files).unwrap_err().to_string().contains("extra is not in it"));
    }

    #[test]
    fn a_seal_notices_every_change() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("metrics.jsonl");
        fs::write(&file, "1").unwrap();
        check_seal(dir.path()).unwrap();
        seal(dir.path()).unwrap();
        check_seal(dir.path()).unwrap();
        fs::write(&file, "2").unwrap();
        assert!(check_seal(dir.path()).unwrap_err().to_string().contains("metrics.jsonl"));
        fs::remove_file(&file).unwrap();
        assert!(check_seal(dir.path()).is_err());
        fs::write(&file, "1").unwrap();
        check_seal(dir.path()).unwrap();
        fs::write(dir.path().join(SEAL), "[{").unwrap();
        assert!(check_seal(dir.path()).is_err());
    }

    #[test]
    fn a_link_in_a_result_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/hostname", dir.path().join("l")).unwrap();
        assert!(matches!(inventory(dir.path()), Err(StoreError::Mismatch { .. })));
    }

    #[test]
    fn e44_an_atomic_write_replaces_whole_files_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json");
        write_atomic(&path, b"a longer first version").unwrap();
        write_atomic(&path, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
