//! A temporary folder to work in, gone at the end of the test.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A temporary folder with a few conveniences. All of them panic on failure, as tests should.
#[derive(Debug)]
pub struct Project {
    dir: TempDir,
}

impl Default for Project {
    fn default() -> Self {
        Self::new()
    }
}

impl Project {
    /// An empty folder.
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("pipeline-test-").tempdir();
        Self { dir: dir.expect("a temporary folder can be made") }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// A path inside the folder.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root().join(name)
    }

    /// Writes a file, and the folders above it; gives its path.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).expect("folders can be made");
        }
        std::fs::write(&path, content).expect("the file can be written");
        path
    }

    /// Makes a folder; gives its path.
    pub fn folder(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).expect("folders can be made");
        path
    }

    /// The text of a file.
    pub fn read(&self, name: impl AsRef<Path>) -> String {
        let path = self.path(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}
