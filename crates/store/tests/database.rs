//! The state database between real processes: first start, contention, damage, ownership.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use store::lease::{Claim, run_lease};
use store::record::{AttemptState, RunState};
use store::{AttemptEnd, NewAttempt, Store, StoreError};

use common::{new_run, raw};

const ROLE: &str = "STORE_TEST_ROLE";
const FOLDER: &str = "STORE_TEST_FOLDER";

/// Starts this test binary again to play `role` on `folder`.
fn actor(role: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "actor_entry", "--nocapture"])
        .env(ROLE, role)
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn finish(children: Vec<Child>) -> Vec<String> {
    let outputs = children.into_iter().map(|c| c.wait_with_output().unwrap());
    outputs
        .map(|o| {
            let text = String::from_utf8_lossy(&o.stdout).into_owned() + &String::from_utf8_lossy(&o.stderr);
            assert!(o.status.success(), "{text}");
            text
        })
        .collect()
}

/// Not a test by itself: what the children of the tests below do.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn actor_entry() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    match role.as_str() {
        "open" => drop(Store::open(&folder, "open").await.unwrap()),
        "write" => write_much(&folder).await,
        "claim" => {
            let store = Store::open(&folder, "claim").await.unwrap();
            while !folder.join("go").exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let ours = matches!(store.claim("run:x").await.unwrap(), Claim::Ours { .. });
            println!("ours={ours}");
            while !folder.join("done").exists() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        "die" => {
            let store = Store::open(&folder, "pipeline run dies.toml").await.unwrap();
            println!("run={}", new_run(&store).await);
            std::process::abort();
        }
        other => panic!("no role {other}"),
    }
}

/// Eight tasks, each with a run of its own and ten attempts in it: 21 transitions a task.
async fn write_much(folder: &Path) {
    let store = Store::open(folder, "write").await.unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let run_id = new_run(&store).await;
                let new = NewAttempt {
                    run_id: &run_id,
                    stage: "s",
                    fingerprint: "f",
                    executor: "local",
                    resume_step: None,
                };
                for _ in 0..10 {
                    let attempt = store.begin_attempt(new).await.unwrap();
                    let end = AttemptEnd {
                        state: AttemptState::Dead,
                        class: Some("infra"),
                        code: "",
                        message: "",
                        help: "",
                        seconds: 1.0,
                        peak_rss_bytes: 1,
                    };
                    store.end_attempt(&attempt, end).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn e28_sixteen_processes_open_an_empty_folder_at_once() {
    let dir = tempfile::tempdir().unwrap();
    finish((0..16).map(|_| actor("open", dir.path())).collect());
    let store = Store::open_existing(dir.path()).await.unwrap();
    assert!(store.runs(1).await.unwrap().is_empty());
}

#[tokio::test]
async fn e24_four_processes_of_eight_writers_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    finish((0..4).map(|_| actor("write", dir.path())).collect());
    let store = Store::open_existing(dir.path()).await.unwrap();
    let runs = store.runs(1000).await.unwrap();
    assert_eq!(runs.len(), 32);
    for run in runs {
        assert_eq!(store.attempts(&run.id).await.unwrap().last().unwrap().number, 10);
        // created + 10 × (stage running, attempt, dead)
        assert_eq!(store.transitions(&run.id).await.unwrap().len(), 31);
        assert_eq!(run.state, RunState::Interrupted, "its process is gone and never ended it");
    }
}

#[tokio::test]
async fn e26_a_locked_database_delays_and_loses_nothing() {
    use sqlx::Connection;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), "x").await.unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.path().join("state.db"));
    let mut other = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    let lock = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let writer = tokio::spawn(async move { (new_run(&store).await, store) });
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(!writer.is_finished());
    lock.rollback().await.unwrap();
    let (run_id, store) = writer.await.unwrap();
    assert_eq!(store.run(&run_id).await.unwrap().state, RunState::Running);
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    use sqlx::ConnectOptions;
    let dir = tempfile::tempdir().unwrap();
    Store::open(dir.path(), "x").await.unwrap().close().await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(dir.path().join("state.db"));
    let mut raw = options.connect().await.unwrap();
    sqlx::query("INSERT INTO _sqlx_migrations SELECT 9999, 'later', installed_on, 1, checksum, 0 FROM _sqlx_migrations LIMIT 1")
        .execute(&mut raw)
        .await
        .unwrap();
    for result in [Store::open(dir.path(), "x").await, Store::open_existing(dir.path()).await] {
        let error = result.unwrap_err();
        assert!(matches!(error, StoreError::NewerSchema { found: 9999, .. }), "{error}");
        assert_eq!(error.exit_code(), 6);
    }
}

#[tokio::test]
async fn a_damaged_database_is_named_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), "x").await.unwrap();
    for _ in 0..20 {
        new_run(&store).await;
    }
    store.close().await;
    let path = dir.path().join("state.db");
    let good = std::fs::read(&path).unwrap();
    std::fs::create_dir(dir.path().join("attempts/some")).unwrap();
    let half = good.len() / 2;
    for bad in [&b""[..], b"not a database at all", &good[..half], &good[..100], &good[..4096 * 2]] {
        std::fs::write(&path, bad).unwrap();
        for file in ["state.db-wal", "state.db-shm"] {
            let _ = std::fs::remove_file(dir.path().join(file));
        }
        let error = Store::open(dir.path(), "x").await.unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{} bytes: {error:?}", bad.len());
        assert_eq!(error.exit_code(), 6);
    }
    std::fs::write(&path, good).unwrap();
    assert_eq!(Store::open(dir.path(), "x").await.unwrap().runs(100).await.unwrap().len(), 20);
}

#[tokio::test]
async fn e91_e16_of_sixteen_claimants_of_a_dead_lease_one_wins() {
    let dir = tempfile::tempdir().unwrap();
    let dead = actor("die", dir.path()).wait_with_output().unwrap();
    assert!(!dead.status.success());
    let store = Store::open(dir.path(), "x").await.unwrap();
    let run_id = store.runs(1).await.unwrap()[0].id.clone();
    // Hand the dead run's lease to the name that the claimants ask for.
    let mut raw = raw(dir.path()).await;
    sqlx::query("UPDATE leases SET resource = 'run:x'").execute(&mut raw).await.unwrap();
    let children: Vec<_> = (0..16).map(|_| actor("claim", dir.path())).collect();
    std::fs::write(dir.path().join("go"), "").unwrap();
    while store.owner_of("run:x").await.unwrap().is_none_or(|o| o.command != "claim") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    std::fs::write(dir.path().join("done"), "").unwrap();
    let wins = finish(children).iter().filter(|t| t.contains("ours=true")).count();
    assert!(wins >= 1);
    let epoch: i64 = sqlx::query_scalar("SELECT epoch FROM leases WHERE resource = 'run:x'")
        .fetch_one(&mut raw)
        .await
        .unwrap();
    assert_eq!(wins as i64, epoch - 1, "one winner for each time that the owner was dead");
    assert!(store.owner_of(&run_lease(&run_id)).await.unwrap().is_none());
}

#[tokio::test]
async fn e80_e35_a_killed_run_is_interrupted_at_once_and_can_be_taken() {
    let dir = tempfile::tempdir().unwrap();
    let dead = actor("die", dir.path()).wait_with_output().unwrap();
    assert!(!dead.status.success());
    let store = Store::open(dir.path(), "pipeline resume").await.unwrap();
    let run = store.runs(1).await.unwrap().remove(0);
    assert_eq!(run.state, RunState::Interrupted);
    store.claim_run(&run.id).await.unwrap();
    assert_eq!(store.run(&run.id).await.unwrap().state, RunState::Running);

    let other = Store::open(dir.path(), "pipeline resume again").await.unwrap();
    let error = other.claim_run(&run.id).await.unwrap_err();
    assert_eq!(error.exit_code(), 4);
    let text = error.to_string();
    assert!(
        text.contains(&format!("pid {}", std::process::id())) && text.contains("`pipeline resume`"),
        "{text}"
    );
}

#[tokio::test]
async fn e31_every_hot_query_uses_an_index() {
    let dir = tempfile::tempdir().unwrap();
    Store::open(dir.path(), "x").await.unwrap();
    let mut raw = raw(dir.path()).await;
    let queries = [
        "SELECT * FROM runs ORDER BY created_at DESC, rowid DESC LIMIT 1",
        "SELECT * FROM stages WHERE run_id = 'x' ORDER BY position",
        "SELECT * FROM attempts WHERE run_id = 'x' ORDER BY stage, number",
        "SELECT * FROM attempts WHERE fingerprint = 'x' AND state IN ('starting', 'running') ORDER BY created_at",
        "SELECT * FROM artifacts WHERE fingerprint IN (SELECT value FROM json_each('[]'))",
        "SELECT * FROM artifacts WHERE pipeline = 'x' AND stage = 'y' ORDER BY created_at DESC LIMIT 1",
        "SELECT * FROM checkpoints WHERE fingerprint = 'x' ORDER BY step DESC",
        "SELECT * FROM events WHERE run_id = 'x' ORDER BY id",
        "SELECT * FROM leases WHERE resource = 'x'",
    ];
    for query in queries {
        let plan: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {query}")))
                .fetch_all(&mut raw)
                .await
                .unwrap();
        for (_, _, _, step) in plan {
            let indexed =
                !step.starts_with("SCAN") || step.contains("USING INDEX") || step.contains("json_each");
            assert!(indexed && !step.contains("TEMP B-TREE"), "{query}: {step}");
        }
    }
}
