//! Checkpoint folders: whole or not there, the new one durable before an old one goes.

use std::fs;
use std::path::{Path, PathBuf};

use store::{fault, files};

use crate::error::StageError;

/// The folder of one attempt's checkpoints.
#[derive(Debug)]
pub struct Checkpoints {
    dir: PathBuf,
    keep: usize,
}

impl Checkpoints {
    /// `keep` finished checkpoints stay; 0 keeps all.
    pub fn new(dir: PathBuf, keep: usize) -> Self {
        Self { dir, keep }
    }

    /// Has `write` fill a hidden folder, makes it durable and gives it its name; returns that path.
    /// An existing checkpoint of the step is replaced.
    pub fn save(
        &self,
        step: u64,
        write: impl FnOnce(&Path) -> Result<(), StageError>,
    ) -> Result<PathBuf, StageError> {
        let path = self.dir.join(format!("step-{step:08}"));
        let unfinished = self.dir.join(format!(".step-{step:08}"));
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(StageError::file("remove", &unfinished))?;
        }
        fs::create_dir_all(&unfinished).map_err(StageError::file("create", &unfinished))?;
        write(&unfinished)?;
        files::sync_tree(&unfinished)?;
        fault::point("checkpoint.written");
        if path.exists() {
            fs::remove_dir_all(&path).map_err(StageError::file("remove", &path))?;
        }
        fs::rename(&unfinished, &path).map_err(StageError::file("rename", &unfinished))?;
        files::sync_dir(&self.dir).map_err(StageError::file("write", &self.dir))?;
        fault::point("checkpoint.renamed");
        self.prune();
        Ok(path)
    }

    /// Removes the oldest finished checkpoints. What cannot be removed does no harm.
    fn prune(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        let mut finished: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("step-")))
            .collect();
        finished.sort();
        let surplus = if self.keep == 0 { 0 } else { finished.len().saturating_sub(self.keep) };
        for old in &finished[..surplus] {
            _ = fs::remove_dir_all(old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn save(checkpoints: &Checkpoints, step: u64) -> PathBuf {
        checkpoints
            .save(step, |dir| {
                fs::write(dir.join("state.json"), step.to_string()).map_err(StageError::file("write", dir))
            })
            .unwrap()
    }

    #[test]
    fn a124_exactly_the_newest_stay_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        for steps in [[2, 4, 6], [8, 10, 12]] {
            let checkpoints = Checkpoints::new(dir.path().join("checkpoints"), 2);
            for step in steps {
                save(&checkpoints, step);
            }
        }
        assert_eq!(names(&dir.path().join("checkpoints")), ["step-00000010", "step-00000012"]);
    }

    #[test]
    fn a9_a_failed_save_leaves_the_previous_one_alone() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::new(dir.path().to_path_buf(), 1);
        let kept = save(&checkpoints, 1);
        let failed = checkpoints.save(2, |dir| {
            fs::write(dir.join("half"), "x").map_err(StageError::file("write", dir))?;
            Err(StageError::Panic { message: "disk full".into() })
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(kept.join("state.json")).unwrap(), "1");
        assert!(!dir.path().join("step-00000002").exists());
        save(&checkpoints, 2);
        assert_eq!(names(dir.path()), ["step-00000002"]);
    }
}
