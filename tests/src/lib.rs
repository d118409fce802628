//! Whole-command tests: the real binary, real folders, real processes.

pub mod storm;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The repository's root.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the repository").to_path_buf()
}

/// The `pipeline` binary of this build; `cargo test --workspace` has made it, anything else makes it here.
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/TEST");
    let path = profile.join("pipeline");
    if !path.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--package", "cli"]).current_dir(repository());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo starts").success(), "`pipeline` builds");
    }
    path
}

/// `pipeline ARGS` in `dir`, cut off from the caller's environment as far as it matters.
pub fn pipeline(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .env("NO_COLOR", "1")
        .env_remove("PIPELINE_STATE_DIR");
    command
}

/// Runs to the end; panics with both outputs unless the exit code is `code`.
pub fn expect(dir: &Path, args: &[&str], code: i32) -> Output {
    let output = pipeline(dir, args).output().expect("pipeline starts");
    assert_eq!(
        output.status.code(),
        Some(code),
        "pipeline {}\n--- stdout\n{}\n--- stderr\n{}\n--- logs\n{}",
        args.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        logs(dir)
    );
    output
}

/// The logs of all attempts below `dir`.
fn logs(dir: &Path) -> String {
    let Ok(attempts) = std::fs::read_dir(dir.join(".pipeline/attempts")) else { return String::new() };
    let log = |path: PathBuf| std::fs::read_to_string(path.join("log.txt")).unwrap_or_default();
    attempts.flatten().map(|entry| log(entry.path())).collect::<Vec<_>>().concat()
}

/// `--set KEY=VALUE` for each pair.
pub fn settings<'a>(pairs: &'a [&'a str]) -> Vec<&'a str> {
    pairs.iter().flat_map(|pair| ["--set", *pair]).collect()
}

/// Everything that must be the same between two runs of one pipeline: path below `artifacts/` → content.
///
/// Left out are the manifests, which hold nonces and costs, and in the HTML page the section on costs.
pub fn results(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let root = dir.join(".pipeline/artifacts");
    let mut found = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("artifacts can be read").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
            let mut content = std::fs::read(&path).expect("an artifact can be read");
            if name.ends_with("manifest.json") {
                continue;
            }
            if name.ends_with("report.html") {
                content = without_costs(&String::from_utf8_lossy(&content)).into_bytes();
            }
            found.insert(name, content);
        }
    }
    found
}

fn without_costs(html: &str) -> String {
    let start = html.find("<section id=\"usage\"").expect("the page has a section on costs");
    let end = html[start..].find("</section>").expect("it ends") + start;
    format!("{}{}", &html[..start], &html[end..])
}

/// Panics unless both runs made the same bytes; names the files that differ.
pub fn assert_same_results(one: &Path, other: &Path) {
    let (one, other) = (results(one), results(other));
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let differ: Vec<&&String> = names.iter().filter(|name| one.get(**name) != other.get(**name)).collect();
    assert!(!one.is_empty(), "there are results");
    assert!(differ.is_empty(), "these files differ: {differ:#?}");
}

/// A process and all that it started, however deep, in whichever group.
pub fn tree(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").expect("/proc can be read").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name in parentheses may hold anything; the parent is the second field after it.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)).map(str::parse);
        if let Some(Ok(parent)) = parent {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let pid = found[next];
        found.extend(children.get(&pid).into_iter().flatten());
        next += 1;
    }
    found
}

/// SIGKILLs a process and all that it started.
pub fn kill_tree(root: u32) {
    let signal = |name: &str, pids: &[u32]| {
        let pids = pids.iter().map(u32::to_string);
        _ = Command::new("kill").arg(name).args(pids).stderr(Stdio::null()).status();
    };
    // Stopped first, so that nobody starts a process that is not on the list.
    signal("-STOP", &tree(root));
    signal("-KILL", &tree(root));
}
