//! Input files are read once, and every change of content is seen.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use store::{FileMemo, Store};

/// Waits out the two seconds in which a file is too young to be remembered.
fn settle() {
    std::thread::sleep(Duration::from_millis(2100));
}

#[tokio::test]
async fn e53_e55_touch_does_not_change_a_hash_and_unchanged_files_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.txt");
    fs::write(&file, "first").unwrap();
    settle();
    let store = Store::open(&dir.path().join("state"), "x").await.unwrap();

    let mut memo = FileMemo::load(&store).await.unwrap();
    let hash = memo.hash(&file).unwrap();
    assert_eq!((hash.as_str(), memo.bytes_read), (blake3::hash(b"first").to_hex().as_str(), 5));
    memo.take_fresh().save(&store).await.unwrap();

    let mut memo = FileMemo::load(&store).await.unwrap();
    assert_eq!(memo.hash(&file).unwrap(), hash);
    assert_eq!(memo.bytes_read, 0, "nothing changed, nothing read");

    File::options().write(true).open(&file).unwrap().set_modified(SystemTime::now()).unwrap();
    assert_eq!(memo.hash(&file).unwrap(), hash, "touched");
    assert_eq!(memo.bytes_read, 5);

    fs::write(&file, "firsT").unwrap();
    assert_ne!(memo.hash(&file).unwrap(), hash, "one byte changed");
    fs::write(&file, "first").unwrap();
    assert_eq!(memo.hash(&file).unwrap(), hash);
}

#[tokio::test]
async fn odd_names_and_linked_folders_are_read() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("st ate"), "x").await.unwrap();
    let real = dir.path().join("real");
    fs::create_dir_all(real.join("deep")).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"a'\" \n\xff");
    fs::write(real.join("deep").join(odd), "x").unwrap();
    fs::write(real.join("z"), "y").unwrap();
    std::os::unix::fs::symlink(&real, dir.path().join("link")).unwrap();
    settle();
    let mut memo = FileMemo::load(&store).await.unwrap();
    let names = memo.list(&dir.path().join("link")).unwrap().unwrap();
    assert_eq!(names, [Path::new("deep").join(odd), "z".into()]);
    assert_eq!(memo.list(&real.join("z")).unwrap(), None);
    let hash = memo.hash(&dir.path().join("link").join(&names[0])).unwrap();
    assert_eq!(hash, blake3::hash(b"x").to_hex().as_str());
    memo.take_fresh().save(&store).await.unwrap();
    let mut memo = FileMemo::load(&store).await.unwrap();
    assert_eq!(memo.hash(&real.join(&names[0])).unwrap(), hash);
    assert_eq!(memo.bytes_read, 0, "the same file by another path");

    std::os::unix::fs::symlink(&real, real.join("loop")).unwrap();
    assert!(memo.list(&real).is_err(), "a loop of links ends with an error");
    assert!(memo.hash(&dir.path().join("absent")).is_err());
}
