//! What tests of the database share.

use std::path::Path;
use std::time::Duration;

use sqlx::{ConnectOptions, SqliteConnection};
use store::record::StageState;
use store::{DecidedStage, NewRun, Store};

/// A connection beside the store's own.
pub async fn raw(dir: &Path) -> SqliteConnection {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.join("state.db"));
    options.busy_timeout(Duration::from_secs(10)).connect().await.unwrap()
}

/// A run of one stage, which waits.
pub async fn new_run(store: &Store) -> String {
    let new = NewRun {
        pipeline: "p",
        source: "p.toml",
        spec_hash: "h",
        plan: "{}",
        cwd: Path::new("/"),
        command: "pipeline run p.toml",
    };
    let (state, reasons) = (StageState::Pending, "[]".into());
    let stage = DecidedStage { name: "s", kind: "report", fingerprint: "f", state, reasons, forced: false };
    store.create_run(new, &[stage]).await.unwrap()
}
