//! Keeps an attempt's log from filling the disk.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::protocol::file;

/// Cuts the log in an attempt's folder to nothing once it is longer than `most` bytes; its last `most` bytes
/// are kept as the older log, in place of the one before. The worker appends, so it just goes on.
/// What it writes in between the two is lost.
pub(crate) fn cap(folder: &Path, most: u64) -> io::Result<()> {
    let path = folder.join(file::LOG);
    let Ok(meta) = path.metadata() else { return Ok(()) };
    if meta.len() <= most {
        return Ok(());
    }
    let mut log = File::options().read(true).write(true).open(&path)?;
    log.seek(SeekFrom::Start(meta.len() - most))?;
    let mut older = tempfile::Builder::new().prefix(".tmp-").tempfile_in(folder)?;
    io::copy(&mut log.by_ref().take(most), older.as_file_mut())?;
    older.persist(folder.join(file::OLDER_LOG))?;
    log.set_len(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    #[test]
    fn e109_a_long_log_keeps_its_end_and_the_writer_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = File::options().create(true).append(true).open(dir.path().join(file::LOG)).unwrap();
        cap(dir.path(), 10).unwrap();
        writer.write_all(b"0123456789").unwrap();
        cap(dir.path(), 10).unwrap();
        assert!(!dir.path().join(file::OLDER_LOG).exists(), "not longer than it may be");
        writer.write_all(b"abc").unwrap();
        cap(dir.path(), 10).unwrap();
        writer.write_all(b"new").unwrap();
        assert_eq!(fs::read(dir.path().join(file::OLDER_LOG)).unwrap(), b"3456789abc");
        assert_eq!(fs::read(dir.path().join(file::LOG)).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
