//! Who owns a lease, and whether that process still lives.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{id, process};

/// The owner of a lease, as recorded. Identity is `owner`, a random id: pids are reused, and two
/// containers may both be pid 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, sqlx::FromRow)]
pub struct Owner {
    pub owner: String,
    pub host: String,
    pub boot: String,
    pub pid_ns: String,
    pub pid: i32,
    /// Clock ticks after boot.
    pub started: i64,
    /// What the user typed.
    pub command: String,
    /// Milliseconds since 1970.
    pub since: i64,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = (id::now_ms() - self.since).max(0) / 1000;
        write!(f, "pid {} on {}, for {seconds} s, `{}`", self.pid, self.host, self.command)
    }
}

/// What can be known about an owner from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    Alive,
    Dead,
    /// On another machine. Unknown is not dead.
    Unknown,
}

/// This process as an owner; its file in `owners/` stays locked as long as it lives.
#[derive(Debug)]
pub(crate) struct Me {
    pub owner: Owner,
    file: Option<File>,
    path: std::path::PathBuf,
}

impl Me {
    /// Registers this process. Called while the store's open lock is held, as is [`sweep`].
    pub fn register(owners: &Path, command: &str) -> std::io::Result<Self> {
        fs::create_dir_all(owners)?;
        let pid = std::process::id() as i32;
        let owner = Owner {
            owner: id::random_hex(32),
            host: process::host(),
            boot: process::boot_id(),
            pid_ns: process::pid_namespace(),
            pid,
            started: process::start_time(pid).unwrap_or(0) as i64,
            command: command.to_owned(),
            since: id::now_ms(),
        };
        let path = owners.join(&owner.owner);
        let file = File::create_new(&path)?;
        // Where the file system cannot lock, pids alone must do.
        let file = file.try_lock().is_ok().then_some(file);
        Ok(Self { owner, file, path })
    }
}

impl Drop for Me {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        self.file.take();
    }
}

/// Removes the files of owners that died.
pub(crate) fn sweep(owners: &Path) {
    for entry in fs::read_dir(owners).into_iter().flatten().flatten() {
        if File::open(entry.path()).is_ok_and(|f| f.try_lock().is_ok()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether `owner` lives, as far as this process can tell: by pid and start time where both see the same
/// pids; by the lock on its file where they share only the kernel (two containers); dead if the machine
/// has booted since.
pub(crate) fn liveness(owner: &Owner, owners: &Path) -> Liveness {
    let same_boot = owner.boot == process::boot_id() && !owner.boot.is_empty();
    if same_boot && owner.pid_ns == process::pid_namespace() {
        // A store of this very process that was closed without giving its leases back.
        let closed = owner.pid == std::process::id() as i32 && !owners.join(&owner.owner).exists();
        let alive = !closed && process::start_time(owner.pid).is_some_and(|s| s as i64 == owner.started);
        return if alive { Liveness::Alive } else { Liveness::Dead };
    }
    if same_boot {
        let lock = File::open(owners.join(&owner.owner)).map(|f| f.try_lock());
        return match lock {
            Ok(Err(TryLockError::WouldBlock)) => Liveness::Alive,
            Ok(Err(TryLockError::Error(_))) => Liveness::Unknown,
            Ok(Ok(())) | Err(_) => Liveness::Dead,
        };
    }
    if owner.host == process::host() { Liveness::Dead } else { Liveness::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e88_an_owner_is_more_than_its_pid() {
        let dir = tempfile::tempdir().unwrap();
        let me = Me::register(dir.path(), "pipeline run x.toml").unwrap();
        assert_eq!(liveness(&me.owner, dir.path()), Liveness::Alive);

        let reused = Owner { started: me.owner.started + 1, ..me.owner.clone() };
        assert_eq!(liveness(&reused, dir.path()), Liveness::Dead, "same pid, another process");

        let container = Owner { pid: 1, pid_ns: "pid:[1]".into(), ..me.owner.clone() };
        assert_eq!(liveness(&container, dir.path()), Liveness::Alive, "its lock is held");
        let gone = Owner { owner: "0".repeat(32), ..container };
        assert_eq!(liveness(&gone, dir.path()), Liveness::Dead, "nobody holds its lock");

        let rebooted = Owner { boot: "another".into(), ..me.owner.clone() };
        assert_eq!(liveness(&rebooted, dir.path()), Liveness::Dead);
        let elsewhere = Owner { host: "another".into(), ..rebooted };
        assert_eq!(liveness(&elsewhere, dir.path()), Liveness::Unknown);
    }

    #[test]
    fn sweep_removes_only_the_dead() {
        let dir = tempfile::tempdir().unwrap();
        let me = Me::register(dir.path(), "x").unwrap();
        fs::write(dir.path().join("dead"), "").unwrap();
        sweep(dir.path());
        assert!(me.path.exists() && !dir.path().join("dead").exists());
        let path = me.path.clone();
        drop(me);
        assert!(!path.exists());
    }
}
