//! Input files are read once, and every change of content is seen.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use store::{FileMemo, Store};

/// Waits out the two seconds in which a file is too young to be remembered.
fn settle() {
    std::thread::sleep(Duration::from_millis(2100));
}

#[tokio::test]
async fn e53_e55_touch_does_not_change_a_hash_and_unchanged_files_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir_all(data.join("deep")).unwrap();
    fs::write(data.join("a.txt"), "first").unwrap();
    fs::write(data.join("deep/b.txt"), "second").unwrap();
    settle();
    let store = Store::open(&dir.path().join("state"), "x").await.unwrap();

    let mut memo = FileMemo::load(&store).await.unwrap();
    let hash = memo.hash(&data).unwrap();
    assert_eq!(memo.bytes_read, 11);
    memo.save(&store).await.unwrap();

    let mut memo = FileMemo::load(&store).await.unwrap();
    assert_eq!(memo.hash(&data).unwrap(), hash);
    assert_eq!(memo.bytes_read, 0, "nothing changed, nothing read");

    File::options().write(true).open(data.join("a.txt")).unwrap().set_modified(SystemTime::now()).unwrap();
    assert_eq!(memo.hash(&data).unwrap(), hash, "touched");
    assert_eq!(memo.bytes_read, 5);

    fs::write(data.join("a.txt"), "firsT").unwrap();
    assert_ne!(memo.hash(&data).unwrap(), hash, "one byte changed");
    fs::write(data.join("a.txt"), "first").unwrap();
    assert_eq!(memo.hash(&data).unwrap(), hash);
    fs::rename(data.join("a.txt"), data.join("c.txt")).unwrap();
    assert_ne!(memo.hash(&data).unwrap(), hash, "renamed");
}

#[tokio::test]
async fn odd_names_and_linked_folders_are_hashed() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("st ate"), "x").await.unwrap();
    let odd = dir.path().join(std::ffi::OsStr::from_bytes(b"a'\" \n\xff"));
    fs::write(&odd, "x").unwrap();
    let real = dir.path().join("real");
    fs::create_dir(&real).unwrap();
    fs::write(real.join("f"), "y").unwrap();
    std::os::unix::fs::symlink(&real, dir.path().join("link")).unwrap();
    settle();
    let mut memo = FileMemo::load(&store).await.unwrap();
    assert_eq!(memo.hash(&odd).unwrap(), blake3::hash(b"x").to_hex().as_str());
    assert_eq!(memo.hash(&real).unwrap(), memo.hash(&dir.path().join("link")).unwrap());
    memo.save(&store).await.unwrap();
    assert_eq!(
        FileMemo::load(&store).await.unwrap().hash(&odd).unwrap(),
        blake3::hash(b"x").to_hex().as_str()
    );

    std::os::unix::fs::symlink(&real, real.join("loop")).unwrap();
    assert!(memo.hash(&real).is_err(), "a loop of links ends with an error");
    assert!(memo.hash(&dir.path().join("absent")).is_err());
}
