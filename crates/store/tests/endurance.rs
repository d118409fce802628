//! Large databases, long readers, slow owners, wrong clocks: what a store meets in the long run.

mod common;

use sqlx::Connection;
use store::lease::Claim;
use store::record::AttemptState;
use store::{AttemptEnd, FileMemo, NewAttempt, Store, StoreError};

use common::{new_run, raw};

fn dead() -> AttemptEnd<'static> {
    AttemptEnd {
        state: AttemptState::Dead,
        class: Some("infra"),
        code: "",
        message: "",
        help: "",
        seconds: 1.0,
        peak_rss_bytes: 1,
    }
}

fn attempt(run_id: &str) -> NewAttempt<'_> {
    NewAttempt { run_id, stage: "s", fingerprint: "f", executor: "local", resume_step: None }
}

#[tokio::test]
async fn e25_a_reader_that_never_ends_blocks_no_writer() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), "x").await.unwrap();
    let first = new_run(&store).await;
    let mut reader = raw(dir.path()).await;
    let mut snapshot = reader.begin().await.unwrap();
    let count = "SELECT COUNT(*) FROM attempts";
    assert_eq!(sqlx::query_scalar::<_, i64>(count).fetch_one(&mut *snapshot).await.unwrap(), 0);
    for _ in 0..100 {
        let made = store.begin_attempt(attempt(&first)).await.unwrap();
        store.end_attempt(&made, dead()).await.unwrap();
    }
    assert_eq!(sqlx::query_scalar::<_, i64>(count).fetch_one(&mut *snapshot).await.unwrap(), 0);
    snapshot.rollback().await.unwrap();
    assert_eq!(store.attempts(&first).await.unwrap().len(), 100);
}

#[tokio::test]
async fn e32_a_run_is_found_among_a_million_stages_without_a_scan() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), "x").await.unwrap();
    let run_id = new_run(&store).await;
    let mut raw = raw(dir.path()).await;
    // 1000 runs of 1000 stages each, older than the one above.
    let fill = "PRAGMA synchronous = OFF;
        WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
        INSERT INTO runs (id, pipeline, source, spec_hash, plan, cwd, command, state, created_at, finished_at)
            SELECT 'r' || i, 'p', 'p.toml', 'h', '{}', X'2f', 'c', 'succeeded', i, i FROM n;
        WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
        INSERT INTO stages (run_id, position, name, kind, fingerprint, state, reasons, forced)
            SELECT 'r' || r.i, s.i, 's' || s.i, 'report', 'f', 'succeeded', '[]', 0 FROM n AS r, n AS s;";
    sqlx::raw_sql(fill).execute(&mut raw).await.unwrap();
    assert_eq!(store.runs(1).await.unwrap()[0].id, run_id);
    assert_eq!(store.stages(&run_id).await.unwrap().len(), 1);
    let names: Vec<_> = store.stages("r7").await.unwrap().into_iter().map(|s| s.name).collect();
    assert_eq!((names.len(), names[999].as_str()), (1000, "s999"));
    // What `status` asks, with the planner's choice for a table of this size.
    sqlx::raw_sql("ANALYZE").execute(&mut raw).await.unwrap();
    for query in [
        "SELECT * FROM runs ORDER BY created_at DESC, rowid DESC LIMIT 1",
        "SELECT * FROM stages WHERE run_id = 'r7' ORDER BY position",
        "SELECT * FROM attempts WHERE run_id = 'r7' ORDER BY stage, number",
    ] {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {query}"));
        let steps: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain).fetch_all(&mut raw).await.unwrap();
        for (.., step) in steps {
            assert!(step.contains("USING INDEX") && !step.contains("B-TREE"), "{query}: {step}");
        }
    }
}

#[tokio::test]
async fn e55_a_known_file_of_200_gb_is_not_read() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("state"), "x").await.unwrap();
    let path = dir.path().canonicalize().unwrap().join("huge");
    std::fs::File::create(&path).unwrap().set_len(200 << 30).unwrap();
    let meta = std::fs::metadata(&path).unwrap();
    let ns = |seconds: i64, nanos: i64| seconds * 1_000_000_000 + nanos;
    // What the first plan would leave behind, without its reading 200 GB.
    sqlx::query("INSERT INTO file_memo VALUES (?, ?, ?, ?, ?, ?, 'hash')")
        .bind(path.as_os_str().as_bytes())
        .bind(meta.dev() as i64)
        .bind(meta.ino() as i64)
        .bind(meta.size() as i64)
        .bind(ns(meta.mtime(), meta.mtime_nsec()))
        .bind(ns(meta.ctime(), meta.ctime_nsec()))
        .execute(&mut raw(&dir.path().join("state")).await)
        .await
        .unwrap();
    let mut memo = FileMemo::load(&store).await.unwrap();
    assert_eq!((memo.hash(&path).unwrap().as_str(), memo.bytes_read), ("hash", 0));
}

#[tokio::test]
async fn e82_an_attempt_that_has_ended_never_changes_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), "x").await.unwrap();
    let run_id = new_run(&store).await;
    let made = store.begin_attempt(attempt(&run_id)).await.unwrap();
    store.end_attempt(&made, dead()).await.unwrap();
    let late = store.end_attempt(&made, AttemptEnd { state: AttemptState::Failed, ..dead() }).await;
    assert!(matches!(late, Err(StoreError::Superseded(_))), "{late:?}");
    let late = store.attempt_started(&made, "{}").await;
    assert!(matches!(late, Err(StoreError::Superseded(_))), "{late:?}");
    assert_eq!(store.attempts(&run_id).await.unwrap()[0].state, AttemptState::Dead);
}

#[tokio::test]
async fn e91_an_owner_is_not_replaced_for_its_age_and_no_clock_decides() {
    let dir = tempfile::tempdir().unwrap();
    let owner = Store::open(dir.path(), "slow").await.unwrap();
    assert!(matches!(owner.claim("run:x").await.unwrap(), Claim::Ours { .. }));
    let other = Store::open(dir.path(), "eager").await.unwrap();
    let mut raw = raw(dir.path()).await;
    // 1970, and the year 2286: the clock went back or forth meanwhile.
    for since in [0, 9_999_999_999_999_i64] {
        sqlx::query("UPDATE leases SET since = ?").bind(since).execute(&mut raw).await.unwrap();
        let Claim::Taken(who) = other.claim("run:x").await.unwrap() else { panic!("it lives") };
        assert!(who.to_string().contains("`slow`"), "{who}");
    }
    owner.close().await;
    assert!(matches!(other.claim("run:x").await.unwrap(), Claim::Ours { previous: Some(_) }));
}
