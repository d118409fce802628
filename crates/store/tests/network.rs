//! On a network file system: a rollback journal instead of the write-ahead log, and many processes all the same.

use std::path::Path;
use std::process::Command;

use store::record::{RunState, StageState};
use store::{DecidedStage, NewRun, Store};

const FOLDER: &str = "STORE_NETWORK_FOLDER";

/// Not a test by itself: what the children of the test below do.
#[tokio::test]
async fn actor_entry() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = Store::open(Path::new(&folder), "test").await.unwrap();
    for _ in 0..10 {
        let new = NewRun {
            pipeline: "p",
            source: "p.toml",
            spec_hash: "",
            plan: "{}",
            cwd: Path::new("/"),
            command: "c",
        };
        let state = StageState::Pending;
        let (name, kind, fingerprint) = ("s", "report", "f");
        let stage = DecidedStage { name, kind, fingerprint, state, reasons: "[]".into(), forced: false };
        let run = store.create_run(new, &[stage]).await.unwrap();
        store.finish_run(&run, RunState::Stopped).await.unwrap();
    }
    store.close().await;
}

/// The children come with the variable in their environment; this process must not have it.
#[tokio::test]
async fn four_processes_share_a_network_folder() {
    let dir = tempfile::tempdir().unwrap();
    let child = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "actor_entry", "--nocapture"])
            .env(FOLDER, dir.path())
            .env(store::network::VARIABLE, "1")
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..4).map(|_| child()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let header = std::fs::read(dir.path().join("state.db")).unwrap();
    assert_eq!((header[18], header[19]), (1, 1), "no write-ahead log: 2 would stand here");
    assert!(!dir.path().join("state.db-wal").exists());

    // The folder was moved to a local disk.
    let store = Store::open(dir.path(), "local").await.unwrap();
    assert_eq!(store.runs(100).await.unwrap().len(), 40);
    let header = std::fs::read(dir.path().join("state.db")).unwrap();
    assert_eq!(header[18], 2, "and back to the log");
}
