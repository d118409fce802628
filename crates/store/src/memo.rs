//! Content hashes of input files, not read again as long as everything that `stat` tells is unchanged.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use sqlx::Row;

use crate::database::Store;
use crate::error::StoreError;
use crate::files;

/// What `stat` says of a file; the same means the same content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    dev: i64,
    inode: i64,
    size: i64,
    mtime_ns: i64,
    ctime_ns: i64,
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        let ns = |s: i64, n: i64| s.wrapping_mul(1_000_000_000).wrapping_add(n);
        Self {
            dev: meta.dev() as i64,
            inode: meta.ino() as i64,
            size: meta.size() as i64,
            mtime_ns: ns(meta.mtime(), meta.mtime_nsec()),
            ctime_ns: ns(meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// A file written within the last two seconds could be written again without its times changing.
    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
        now.saturating_sub(self.mtime_ns.max(self.ctime_ns)) > 2_000_000_000
    }
}

/// Hashes files, remembering what it read. [`FileMemo::take_fresh`] gives what is to be kept for the next time.
#[derive(Debug, Default)]
pub struct FileMemo {
    known: HashMap<PathBuf, (Stamp, String)>,
    fresh: Vec<PathBuf>,
    /// Bytes read so far, for tests and for the curious.
    pub bytes_read: u64,
}

impl FileMemo {
    /// Starts from what the state folder remembers.
    pub async fn load(store: &Store) -> Result<Self, StoreError> {
        let rows = sqlx::query("SELECT path, dev, inode, size, mtime_ns, ctime_ns, blake3 FROM file_memo")
            .fetch_all(store.readers())
            .await
            .map_err(|e| store.classify(e))?;
        let entry = |row: &sqlx::sqlite::SqliteRow| -> Result<_, sqlx::Error> {
            let stamp = Stamp {
                dev: row.try_get(1)?,
                inode: row.try_get(2)?,
                size: row.try_get(3)?,
                mtime_ns: row.try_get(4)?,
                ctime_ns: row.try_get(5)?,
            };
            let path = PathBuf::from(OsStr::from_bytes(row.try_get::<&[u8], _>(0)?));
            Ok((path, (stamp, row.try_get(6)?)))
        };
        let known = rows.iter().map(entry).collect::<Result<_, _>>()?;
        Ok(Self { known, ..Self::default() })
    }

    /// Relative paths of all files in a folder, at any depth, sorted, symbolic links followed; `None` when
    /// `path` is a file.
    pub fn list(&mut self, path: &Path) -> Result<Option<Vec<PathBuf>>, StoreError> {
        if !fs::metadata(path).map_err(StoreError::io(path))?.is_dir() {
            return Ok(None);
        }
        let mut names = Vec::new();
        list(path, &mut PathBuf::new(), 0, &mut names)?;
        names.sort();
        Ok(Some(names))
    }

    /// BLAKE3 of a file's content, as hex.
    pub fn hash(&mut self, path: &Path) -> Result<String, StoreError> {
        let key = fs::canonicalize(path).map_err(StoreError::io(path))?;
        let stamp = || fs::metadata(&key).map(|m| Stamp::of(&m)).map_err(StoreError::io(path));
        let before = stamp()?;
        if let Some((known, hash)) = self.known.get(&key)
            && *known == before
        {
            return Ok(hash.clone());
        }
        let hash = files::hash_file(&key)?;
        self.bytes_read += before.size as u64;
        if stamp()? != before {
            return Err(StoreError::ChangedWhileRead { path: path.to_owned() });
        }
        if before.is_settled() {
            self.known.insert(key.clone(), (before, hash.clone()));
            self.fresh.push(key);
        }
        Ok(hash)
    }

    /// What was read since [`FileMemo::load`] or the last call of this.
    pub fn take_fresh(&mut self) -> Fresh {
        let entry = |path: PathBuf| self.known.get(&path).cloned().map(|(stamp, hash)| (path, stamp, hash));
        Fresh(std::mem::take(&mut self.fresh).into_iter().filter_map(entry).collect())
    }
}

/// Hashes that are not in the state folder yet.
#[derive(Debug)]
pub struct Fresh(Vec<(PathBuf, Stamp, String)>);

impl Fresh {
    /// Keeps them for the next time.
    pub async fn save(self, store: &Store) -> Result<(), StoreError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut tx = store.begin().await?;
        for (path, stamp, hash) in self.0 {
            sqlx::query("INSERT OR REPLACE INTO file_memo VALUES (?, ?, ?, ?, ?, ?, ?)")
                .bind(path.as_os_str().as_bytes())
                .bind(stamp.dev)
                .bind(stamp.inode)
                .bind(stamp.size)
                .bind(stamp.mtime_ns)
                .bind(stamp.ctime_ns)
                .bind(hash)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await.map_err(|e| store.classify(e))
    }
}

/// Deepest folder that is followed; more is a loop of links.
const DEEPEST: usize = 64;

fn list(root: &Path, below: &mut PathBuf, depth: usize, names: &mut Vec<PathBuf>) -> Result<(), StoreError> {
    let folder = root.join(&below);
    if depth > DEEPEST {
        return Err(StoreError::io(folder)(std::io::Error::other(
            "folders nest too deep, or links form a loop",
        )));
    }
    for entry in fs::read_dir(&folder).map_err(StoreError::io(&folder))? {
        let entry = entry.map_err(StoreError::io(&folder))?;
        below.push(entry.file_name());
        let path = root.join(&below);
        if fs::metadata(&path).map_err(StoreError::io(&path))?.is_dir() {
            list(root, below, depth + 1, names)?;
        } else {
            names.push(below.clone());
        }
        below.pop();
    }
    Ok(())
}
