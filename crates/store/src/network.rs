//! Network file systems: SQLite's write-ahead log needs memory that all processes share, which they do not
//! give. There the database keeps a rollback journal, and locks are tried before they are relied on.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::statfs::statfs;
use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};

use crate::error::StoreError;

/// `1` takes every file system for a network file system, `0` none.
pub const VARIABLE: &str = "PIPELINE_NETWORK_FS";

/// Magic numbers of `statfs`, from `linux/magic.h` and the file systems' own sources.
const MAGIC: &[(i64, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x00c3_6400, "Ceph"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0xaad7_aaea, "PanFS"),
    (0x2003_0528, "OrangeFS"),
    (0x0102_1997, "9p"),
];
const FUSE: i64 = 0x6573_5546;

/// FUSE file systems that keep their files on this machine; all others are taken to be far away.
const LOCAL_FUSE: &[&str] = &[
    "fuseblk",
    "fuse.ntfs-3g",
    "fuse.exfat",
    "fuse.fuse-overlayfs",
    "fuse.mergerfs",
    "fuse.bindfs",
    "fuse.gocryptfs",
    "fuse.encfs",
    "fuse.lxcfs",
];

/// The network file system that `folder` (or the nearest folder above it that exists) lies on.
pub fn network_file_system(folder: &Path) -> Option<String> {
    match std::env::var(VARIABLE).as_deref() {
        Ok("1") => return Some("a network file system".to_owned()),
        Ok("0") => return None,
        _ => {}
    }
    let there = nearest(folder)?;
    let there = there.as_path();
    // The type's width differs between platforms; magic numbers have 32 bits.
    #[allow(clippy::unnecessary_cast)]
    let magic = statfs(there).ok()?.filesystem_type().0 as i64 & 0xffff_ffff;
    if magic == FUSE {
        let kind = mounted_as(&fs::canonicalize(there).ok()?, &fs::read("/proc/self/mountinfo").ok()?)?;
        return (!LOCAL_FUSE.contains(&kind.as_str())).then_some(kind);
    }
    MAGIC.iter().find(|(number, _)| *number == magic).map(|(_, name)| (*name).to_owned())
}

/// `folder`, or the first one above it that exists.
fn nearest(folder: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(folder).ok()?;
    path.ancestors().find(|path| path.exists()).map(Path::to_owned)
}

/// Type of the mount that a path lies on, from the text of `/proc/self/mountinfo`.
fn mounted_as(path: &Path, mountinfo: &[u8]) -> Option<String> {
    let mounts = mountinfo.split(|&b| b == b'\n').filter_map(|line| {
        let mut fields = line.split(|&b| b == b' ');
        let point = unescape(fields.nth(4)?);
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        Some((point, String::from_utf8_lossy(kind).into_owned()))
    });
    // Of two mounts on one point the later one is seen.
    let above = mounts.filter(|(point, _)| path.starts_with(point));
    above.max_by_key(|(point, _)| point.as_os_str().len()).map(|(_, kind)| kind)
}

/// Spaces, tabs, newlines and backslashes are octal there: `\040`.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| first == b'\\').and_then(|d| std::str::from_utf8(d).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsStr::from_bytes(&bytes))
}

/// Checks that a record lock keeps another opener out: two open files of one process are two owners.
///
/// # Errors
/// [`StoreError::NoLocks`]; then two processes would write to the database at once.
pub fn check_locks(folder: &Path) -> Result<(), StoreError> {
    let tried = || -> std::io::Result<bool> {
        let file = tempfile::Builder::new().prefix(".tmp-").tempfile_in(folder)?;
        let (one, other) = (file.reopen()?, file.reopen()?);
        fcntl(&one, FcntlArg::F_OFD_SETLK(&whole_file()))?;
        Ok(fcntl(&other, FcntlArg::F_OFD_SETLK(&whole_file())).is_err())
    };
    let no_locks = |detail: String| StoreError::NoLocks { path: folder.to_owned(), detail };
    match tried() {
        Ok(true) => Ok(()),
        Ok(false) => Err(no_locks("two were given at once".into())),
        Err(error) => Err(no_locks(error.to_string())),
    }
}

fn whole_file() -> libc::flock {
    // Lengths of 0 mean to the end; the pid must be 0.
    libc::flock { l_type: libc::F_WRLCK as _, l_whence: libc::SEEK_SET as _, l_start: 0, l_len: 0, l_pid: 0 }
}

/// Whether this process may write to `folder`, or could make it.
pub fn is_writable(folder: &Path) -> bool {
    nearest(folder).is_some_and(|there| access(&there, AccessFlags::W_OK).is_ok())
}

/// Bytes that this user may still write to the file system of `folder`; `None` where it does not say.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let stat = statvfs(&nearest(folder)?).ok()?;
    Some(stat.blocks_available().saturating_mul(stat.fragment_size()))
}

/// Whether a file is empty or not there.
pub(crate) fn is_empty(path: &Path) -> bool {
    File::open(path).and_then(|file| file.metadata()).map_or(true, |meta| meta.len() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            40 22 0:50 / /home/a\\040b rw shared:2 master:1 - fuse.sshfs host:/ rw\n\
            41 40 0:51 / /home/a\\040b/local rw - tmpfs tmpfs rw\n";
        let kind = |path| mounted_as(Path::new(path), mounts);
        assert_eq!(kind("/home/a b/x").as_deref(), Some("fuse.sshfs"));
        assert_eq!(kind("/home/a b/local/x").as_deref(), Some("tmpfs"));
        assert_eq!(kind("/home/a").as_deref(), Some("ext4"));
    }

    #[test]
    fn locks_work_here_and_leave_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        check_locks(dir.path()).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let nowhere = check_locks(&dir.path().join("nowhere")).unwrap_err();
        assert!(matches!(nowhere, StoreError::NoLocks { .. }), "{nowhere}");
    }
}
