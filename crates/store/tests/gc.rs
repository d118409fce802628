//! Garbage collection between real processes: what stays, what goes, and death in the midst of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use store::gc::{Collection, Policy, What};
use store::lease::stage_lease;
use store::record::{Attempt, AttemptState, RunState, StageState};
use store::{AttemptEnd, DecidedStage, Layout, NewAttempt, NewRun, Publication, Store, StoreError, files};

const ROLE: &str = "STORE_GC_ROLE";
const FOLDER: &str = "STORE_GC_FOLDER";
const ALL: Policy = Policy { keep_runs: Some(0), older_than: None };

/// Starts this test binary again to play `role` on `folder`, with a fault point.
fn actor(role: &str, folder: &Path, fault: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "actor_entry", "--nocapture"])
        .env(ROLE, role)
        .env(FOLDER, folder)
        .env(store::fault::VARIABLE, fault)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Not a test by itself: what the children of the tests below do.
#[tokio::test]
async fn actor_entry() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let store = open(&PathBuf::from(std::env::var_os(FOLDER).unwrap())).await;
    match role.as_str() {
        "make" => drop(make(&store, "late").await),
        "collect" => drop(store.collect(ALL).await.unwrap()),
        other => panic!("no role {other}"),
    }
}

async fn open(folder: &Path) -> Store {
    Store::open(folder, "test").await.unwrap()
}

fn fingerprint(name: &str) -> String {
    format!("{name:_>16}").repeat(4)
}

async fn begin(store: &Store, name: &str, state: StageState) -> (String, String) {
    let fingerprint = fingerprint(name);
    let new =
        NewRun { pipeline: name, source: "p", spec_hash: "", plan: "{}", cwd: Path::new("/"), command: "c" };
    let stage = DecidedStage {
        name: "s",
        kind: "report",
        fingerprint: &fingerprint,
        state,
        reasons: "[]".into(),
        forced: false,
    };
    (store.create_run(new, &[stage]).await.unwrap(), fingerprint)
}

async fn attempt(store: &Store, run_id: &str, fingerprint: &str) -> Attempt {
    let new = NewAttempt { run_id, stage: "s", fingerprint, executor: "local", resume_step: None };
    let attempt = store.begin_attempt(new).await.unwrap();
    let folder = store.layout().attempt(&attempt.id);
    fs::create_dir_all(folder.join("out")).unwrap();
    fs::write(folder.join("log.txt"), "said").unwrap();
    fs::write(folder.join("out/result"), fingerprint).unwrap();
    attempt
}

async fn publish(store: &Store, attempt: &Attempt) {
    let files = files::inventory(&store.layout().attempt(&attempt.id).join("out")).unwrap();
    let publication = Publication {
        attempt,
        out: "out",
        kind: "report",
        pipeline: "p",
        parts: "{}",
        files: &files,
        summary: "null",
        seconds: 1.0,
        peak_rss_bytes: 1,
    };
    store.publish(publication).await.unwrap();
}

/// A run with one stage and its result. Gives its id.
async fn make(store: &Store, name: &str) -> String {
    let (run, fingerprint) = begin(store, name, StageState::Pending).await;
    store.claim(&stage_lease(&fingerprint)).await.unwrap();
    let attempt = attempt(store, &run, &fingerprint).await;
    publish(store, &attempt).await;
    store.finish_run(&run, RunState::Succeeded).await.unwrap();
    run
}

async fn is_whole(store: &Store, name: &str) -> bool {
    let Some(artifact) = store.artifact(&fingerprint(name)).await.unwrap() else { return false };
    files::first_missing(&store.layout().resolve(&artifact.path), &artifact.file_list().unwrap()).is_none()
}

fn count(collection: &Collection, what: What) -> usize {
    collection.items.iter().filter(|item| item.what == what).count()
}

fn left(folder: &Path) -> usize {
    let count = |name| fs::read_dir(folder.join(name)).into_iter().flatten().count();
    count("attempts") + count("artifacts") + count("trash")
}

#[tokio::test]
async fn e132_e133_dry_by_default_and_then_exactly_that() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    make(&store, "old").await;
    // A newer run found the result of the old one.
    make(&store, "shared").await;
    begin(&store, "shared", StageState::Cached).await;
    let newest = store.runs(1).await.unwrap().remove(0).id;
    store.finish_run(&newest, RunState::Succeeded).await.unwrap();

    let nothing = store.collectable(Policy::default()).await.unwrap();
    assert_eq!(nothing, Collection::default(), "every run is kept unless asked otherwise");

    let policy = Policy { keep_runs: Some(1), older_than: None };
    let preview = store.collectable(policy).await.unwrap();
    assert_eq!(preview.runs.len(), 2);
    assert_eq!((count(&preview, What::Artifact), count(&preview, What::Attempt)), (1, 1));
    assert!(preview.items.iter().all(|item| item.bytes > 0));
    assert!(is_whole(&store, "old").await && left(dir.path()) == 4, "looking removes nothing");

    let collected = store.collect(policy).await.unwrap();
    assert_eq!(collected, preview);
    assert!(!is_whole(&store, "old").await);
    assert!(is_whole(&store, "shared").await, "reached by the run that is kept");
    assert_eq!(left(dir.path()), 2, "its log too");
    assert_eq!(store.collectable(policy).await.unwrap(), Collection::default());
}

#[tokio::test]
async fn orphans_and_leftovers_go_and_open_attempts_stay() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    make(&store, "done").await;
    let (run, fingerprint) = begin(&store, "open", StageState::Pending).await;
    let open = attempt(&store, &run, &fingerprint).await;
    let done = store.attempts(&store.runs(2).await.unwrap()[1].id).await.unwrap().remove(0);
    for folder in ["attempts/nobody", "artifacts/report-0123456789abcdef"] {
        fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    for attempt in [&open.id, &done.id] {
        for name in ["replaced", "checkpoints/step-00000001"] {
            fs::create_dir_all(store.layout().attempt(attempt).join(name)).unwrap();
        }
        fs::write(store.layout().attempt(attempt).join(".tmp-x"), "x").unwrap();
    }
    let collected = store.collect(Policy::default()).await.unwrap();
    let mut paths: Vec<String> = collected.items.iter().map(|i| i.path.display().to_string()).collect();
    paths.sort();
    let of = |name: &str| format!("attempts/{}/{name}", done.id);
    let mut expected = vec![
        "artifacts/report-0123456789abcdef".to_owned(),
        "attempts/nobody".to_owned(),
        of(".tmp-x"),
        of("checkpoints/step-00000001"),
        of("replaced"),
    ];
    expected.sort();
    assert_eq!(paths, expected);
    assert!(store.layout().attempt(&open.id).join("replaced").exists());
}

#[tokio::test]
async fn checkpoints_that_a_kept_run_goes_on_from_stay() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let (first, fingerprint) = begin(&store, "long", StageState::Pending).await;
    let attempt = attempt(&store, &first, &fingerprint).await;
    fs::create_dir_all(store.layout().attempt(&attempt.id).join("checkpoints/step-00000007")).unwrap();
    store.record_checkpoints(&attempt, "checkpoints").await.unwrap();
    let end = AttemptEnd {
        state: AttemptState::Stopped,
        class: None,
        code: "",
        message: "",
        help: "",
        seconds: 1.0,
        peak_rss_bytes: 1,
    };
    store.end_attempt(&attempt, end).await.unwrap();
    store.finish_run(&first, RunState::Stopped).await.unwrap();
    let (second, _) = begin(&store, "long", StageState::Pending).await;

    assert_eq!(store.collect(ALL).await.unwrap(), Collection::default(), "the second one is ours and live");
    let refused = store.remove_run(&first).await.unwrap_err();
    assert!(matches!(refused, StoreError::InUse { .. }), "{refused}");
    assert_eq!(store.newest_checkpoint(&fingerprint).await.unwrap().unwrap().step, 7);

    store.finish_run(&second, RunState::Stopped).await.unwrap();
    let keep = Policy { keep_runs: Some(1), older_than: None };
    assert_eq!(store.collect(keep).await.unwrap(), Collection::default(), "it could be resumed");
    assert_eq!(store.collect(ALL).await.unwrap().runs.len(), 2);
    assert_eq!(left(dir.path()), 0);
}

// With a second thread: this one blocks on the child.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e38_a_result_on_its_way_is_left_alone() {
    for point in ["publish.manifest=stop", "publish.renamed=stop"] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        let mut child = actor("make", dir.path(), point);
        wait_for_stop(child.id());
        assert_eq!(store.collect(ALL).await.unwrap(), Collection::default(), "at {point}");
        let run = store.runs(1).await.unwrap().remove(0);
        assert!(matches!(store.remove_run(&run.id).await, Err(StoreError::Locked { .. })));
        signal(child.id(), "-CONT");
        assert!(child.wait().unwrap().success());
        assert!(is_whole(&store, "late").await, "at {point}");
    }
}

#[tokio::test]
async fn e35_a_killed_run_can_be_removed_and_its_half_made_result_goes() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = actor("make", dir.path(), "publish.renamed");
    assert!(!child.wait().unwrap().success());
    let store = open(dir.path()).await;
    let kept = store.collect(Policy::default()).await.unwrap();
    assert_eq!(kept, Collection::default(), "the run could still be resumed");

    let run = store.runs(1).await.unwrap().remove(0);
    assert_eq!(run.state, RunState::Interrupted);
    store.remove_run(&run.id).await.unwrap();
    assert!(matches!(store.remove_run(&run.id).await, Err(StoreError::UnknownRun(_))));
    assert_eq!(store.collect(Policy::default()).await.unwrap().items.len(), 2);
    assert_eq!(left(dir.path()), 0);
}

#[tokio::test]
async fn e132_killed_anywhere_it_loses_nothing_and_can_be_repeated() {
    for point in store::fault::GC_POINTS {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await;
        make(&store, "old").await;
        let (live, _) = begin(&store, "live", StageState::Pending).await;
        assert!(!actor("collect", dir.path(), point).wait().unwrap().success());
        assert!(store.artifact(&fingerprint("old")).await.unwrap().is_none(), "no row without its files");
        assert_eq!(store.runs(9).await.unwrap().len(), 1, "{live} is kept");
        assert!(!store.collect(ALL).await.unwrap().items.is_empty());
        assert_eq!(left(dir.path()), 0, "after {point}");
    }
}

#[tokio::test]
async fn a_result_that_went_while_a_run_was_planned_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let new =
        NewRun { pipeline: "p", source: "p", spec_hash: "", plan: "{}", cwd: Path::new("/"), command: "c" };
    let stage = DecidedStage {
        name: "s",
        kind: "report",
        fingerprint: "gone",
        state: StageState::Cached,
        reasons: "[]".into(),
        forced: false,
    };
    let refused = store.create_run(new, &[stage]).await.unwrap_err();
    assert!(matches!(refused, StoreError::RemovedMeanwhile { .. }), "{refused}");
    assert!(store.runs(1).await.unwrap().is_empty());
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

fn wait_for_stop(pid: u32) {
    let stopped = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    };
    while !stopped() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn folders_of_artifacts_end_in_their_short_fingerprint() {
    let name = Layout::artifact_name("report", &fingerprint("x"));
    assert!(name.ends_with(&format!("-{}", &fingerprint("x")[..16])), "what spares a result on its way");
}
