//! A real small file system that fills up: nothing partial is taken, and with room again the run ends with
//! the same bytes. `cargo xtask soak` fills it at every point and at many more sizes.
//!
//! The tests run themselves again in a user and mount namespace of their own, where they may mount.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use e2e::storm::{self, let_go, wait_for_stop};
use e2e::{assert_same_results, expect, pipeline};
use store::fault::{POINTS, VARIABLE, WORKER_POINTS};
use testkit::Project;

const INSIDE: &str = "PIPELINE_TEST_INSIDE";

/// Whether this process may mount; if not, runs the test of that name where it may, or says that it cannot.
fn may_mount(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let allowed = Command::new("unshare").args(["-Urm", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        let strict = std::env::var_os("PIPELINE_CI_STRICT").is_some_and(|value| value == "1");
        assert!(!strict, "this system does not allow mounting in a namespace");
        println!("skipped: this system does not allow mounting in a namespace");
        return false;
    }
    let mut again = Command::new("unshare");
    again.arg("-Urm").arg(std::env::current_exe().expect("a test knows its own path"));
    again.args(["--exact", test, "--nocapture", "--include-ignored"]).env(INSIDE, "1");
    assert!(again.status().expect("unshare starts").success(), "{test} fails in a namespace");
    false
}

fn mount(arguments: &[&str], folder: &Path) {
    let status = Command::new("mount").args(arguments).arg(folder).status();
    assert!(status.is_ok_and(|status| status.success()), "mount {arguments:?}");
}

/// A project whose state folder is a file system of `kib` KiB.
struct Small(Project);

impl Small {
    fn new(kib: u64) -> Self {
        let project = Project::new();
        project.write("p.toml", storm::PIPELINE);
        let folder = project.folder(".pipeline");
        mount(&["-t", "tmpfs", "-o", &format!("size={kib}k"), "none"], &folder);
        Self(project)
    }

    fn state(&self) -> std::path::PathBuf {
        self.0.path(".pipeline")
    }

    /// Takes all room that is left.
    fn fill(&self) {
        let mut file = File::create(self.state().join("filler")).expect("a name needs no room");
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// There is room again: the run is made good and its bytes are those of a calm one.
    fn mend(&self, calm: &Path, what: &str) {
        let dir = self.0.root();
        _ = std::fs::remove_file(self.state().join("filler"));
        mount(&["-o", "remount,size=256m"], &self.state());
        let resumed = pipeline(dir, &["resume"]).output().expect("pipeline starts");
        let said = String::from_utf8_lossy(&resumed.stderr).into_owned();
        // 1: an attempt had failed for good, and only a new run tries again; 2 and 6: there is no run yet.
        assert!(resumed.status.code().is_some_and(|code| [0, 1, 2, 6].contains(&code)), "{what}: {said}");
        storm::assert_mended(dir, what);
        assert_same_results(calm, dir);
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        _ = Command::new("umount").arg("-l").arg(self.state()).status();
    }
}

fn calm() -> Project {
    let project = Project::new();
    project.write("p.toml", storm::PIPELINE);
    expect(project.root(), &["run", "p.toml"], 0);
    project
}

/// A run on a file system that is too small for it: an error code, and never a success.
fn too_small(kib: u64, calm: &Path) -> Option<i32> {
    let small = Small::new(kib);
    let output = pipeline(small.0.root(), &["run", "p.toml"]).output().expect("pipeline starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1 | 6)), "{kib} KiB: {code:?} {said}");
    assert!(code == Some(0) || said.contains("E0"), "{kib} KiB: no error code in {said}");
    small.mend(calm, &format!("{kib} KiB"));
    code
}

/// The disk fills while the driver, or its first worker, stands still at a point.
fn filled_at(point: &str, calm: &Path) -> bool {
    let small = Small::new(64 << 10);
    let worker = WORKER_POINTS.contains(&point);
    let variable = if worker { storm::WORKER_VARIABLE } else { VARIABLE };
    let mut driver = storm::driver(small.0.root(), &[(variable, &format!("{point}:1=stop"))]);
    let reached = wait_for_stop(&mut driver).is_some();
    small.fill();
    let code = let_go(&mut driver);
    assert!(matches!(code, Some(0 | 1 | 6)), "{point}: {code:?}");
    small.mend(calm, point);
    reached
}

#[test]
fn e36_e37_e43_on_a_disk_that_is_full_nothing_partial_is_taken_and_nothing_is_lost() {
    if !may_mount("e36_e37_e43_on_a_disk_that_is_full_nothing_partial_is_taken_and_nothing_is_lost") {
        return;
    }
    let calm = calm();
    let codes = [16, 150, 400, 700].map(|kib| too_small(kib, calm.root()));
    assert!(codes.iter().any(|code| *code != Some(0)), "none was too small: {codes:?}");
    for point in
        ["run.created", "attempt.inserted", "checkpoint.written", "worker.finished", "publish.verified"]
    {
        assert!(filled_at(point, calm.root()), "{point} was not reached");
    }
}

/// Takes from, or gives back to, everyone the right to write in a folder and those below it.
fn set_mode(folder: &Path, mode: &str) {
    let status =
        Command::new("find").arg(folder).args(["-type", "d", "-exec", "chmod", mode, "{}", "+"]).status();
    assert!(status.is_ok_and(|status| status.success()), "chmod {mode}");
}

#[test]
fn e43_a_folder_that_becomes_read_only_starts_nothing_further_and_loses_nothing() {
    // As the owner of the files, but without root's right to pass over their modes.
    let plain = ["-U", "--map-user=1000", "--map-group=1000"];
    if !may_mount("e43_a_folder_that_becomes_read_only_starts_nothing_further_and_loses_nothing") {
        return;
    }
    let calm = calm();
    for point in ["attempt.inserted", "worker.finished", "publish.verified"] {
        let project = Project::new();
        let dir = project.root();
        project.write("p.toml", storm::PIPELINE);
        let variable = if WORKER_POINTS.contains(&point) { storm::WORKER_VARIABLE } else { VARIABLE };
        let run = pipeline(dir, &["run", "p.toml"]);
        let mut command = Command::new("unshare");
        command.args(plain).arg(run.get_program()).args(run.get_args()).current_dir(dir);
        command.env(variable, format!("{point}:1=stop")).stdin(Stdio::null()).stderr(Stdio::null());
        let mut driver = command.stdout(Stdio::null()).spawn().expect("unshare starts");
        assert!(wait_for_stop(&mut driver).is_some(), "{point} was not reached");
        let state = project.path(".pipeline");
        set_mode(&state, "a-w");
        let code = let_go(&mut driver);
        set_mode(&state, "u+w");
        assert_eq!(code, Some(6), "{point}");
        let begun: Vec<String> = storm::begun(dir).into_keys().collect();
        assert!(begun.iter().all(|stage| stage == "base"), "{point}: {begun:?} began");
        assert!(std::fs::read_dir(state.join("artifacts")).expect("it reads").next().is_none(), "{point}");
        storm::assert_mended(dir, point);
        assert_same_results(calm.root(), dir);
    }
}

#[test]
#[ignore = "long: cargo xtask soak"]
fn soak_disk() {
    if !may_mount("soak_disk") {
        return;
    }
    let calm = calm();
    let points: Vec<&str> = POINTS.iter().chain(WORKER_POINTS).copied().collect();
    let reached = points.iter().filter(|point| filled_at(point, calm.root())).count();
    let sizes: Vec<u64> = (0..60).map(|n| 8 + n * 16).collect();
    let failed = sizes.iter().filter(|kib| too_small(**kib, calm.root()) != Some(0)).count();
    println!(
        "soak: disk filled at {reached} of {} points, and {failed} of {} sizes too small; no violation",
        points.len(),
        sizes.len()
    );
    assert!(reached > points.len() / 2 && failed > 0);
}
