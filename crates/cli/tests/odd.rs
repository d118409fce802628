//! Odd names, odd files and odd places: what is typed, read and written is bytes, not text.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use testkit::Project;

/// One stage that takes a moment, and reads a file.
const ONE: &str = r#"[pipeline]
name = "one"

[stages.base]
kind = "pretrain"
path = "PATH"
vocab_size = 300
hidden_size = 16
intermediate_size = 32
num_hidden_layers = 1
num_attention_heads = 2
num_key_value_heads = 1
max_position_embeddings = 128
max_length = 32
max_steps = 1
"#;

fn command<S: AsRef<OsStr>>(folder: &Path, args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pipeline"));
    command.args(args).current_dir(folder).env_remove("PIPELINE_STATE_DIR").env_remove("NO_COLOR");
    command
}

fn run(folder: &Path, args: &[&OsStr]) -> Output {
    command(folder, args).output().expect("the program starts")
}

fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("exit code {:?}\n{}{}", output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn pairs() -> String {
    let pair = |n: u32| format!("{{\"text\":\"What is {n}? It is {n}.\"}}\n");
    (0..80).map(pair).collect()
}

fn pipeline(path: &str) -> String {
    ONE.replace("PATH", &path.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// Runs, finds it up to date, and looks at it, with a state folder and a pipeline file of these names.
fn whole_life(project: &Project, state: &OsStr, file: &OsStr) {
    let with = |args: &[&OsStr]| {
        let all = [&[OsStr::new("--state-dir"), state], args].concat();
        let output = run(project.root(), &all);
        assert!(output.status.success(), "{}", shown(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    with(&[OsStr::new("run"), file, OsStr::new("-q")]);
    assert!(with(&[OsStr::new("run"), file]).contains("up to date"));
    assert!(with(&[OsStr::new("status")]).contains("succeeded"));
    assert!(with(&[OsStr::new("plan"), file]).contains("cached"));
    // The file of the latest run is found again.
    assert!(with(&[OsStr::new("explain"), OsStr::new("base")]).contains("up to date"));
    with(&[OsStr::new("gc"), OsStr::new("--force")]);
    with(&[OsStr::new("doctor"), OsStr::new("--deep")]);
}

#[test]
fn e74_names_may_hold_spaces_quotes_and_newlines() {
    for name in ["a b", "it's \"so\"", "two\nlines"] {
        let project = Project::new();
        let (file, data) = (format!("{name}.toml"), format!("{name}.jsonl"));
        project.write(&data, pairs());
        project.write(&file, pipeline(&data));
        whole_life(&project, OsStr::new(name), OsStr::new(&file));
    }
}

#[test]
fn e74_bytes_that_are_not_text() {
    let project = Project::new();
    let name = OsStr::from_bytes(b"r\xe9sum\xe9 \xff");
    project.write("data.jsonl", pairs());
    project.write(name, pipeline("data.jsonl"));
    let refused = run(project.root(), &[OsStr::new("--state-dir"), name, OsStr::new("run"), name]);
    assert!(shown(&refused).starts_with("exit code Some(6)\nE0316"), "{}", shown(&refused));
    let made = run(project.root(), &[OsStr::new("run"), name, OsStr::new("-q")]);
    assert!(made.status.success(), "{}", shown(&made));
    assert!(shown(&run(project.root(), &[OsStr::new("run"), name])).contains("up to date"));
}

#[test]
fn e79_folders_may_be_links() {
    let project = Project::new();
    for (folder, link) in [("far/state", "state"), ("far/data", "data")] {
        project.folder(folder);
        symlink(project.path(folder), project.path(link)).expect("a link");
    }
    project.write("far/data/real.jsonl", pairs());
    symlink("real.jsonl", project.path("far/data/link.jsonl")).expect("a link");
    project.write("p.toml", pipeline("data/link.jsonl"));
    whole_life(&project, OsStr::new("state"), OsStr::new("p.toml"));
    assert!(project.path("far/state/state.db").exists());

    fs::write(project.path("far/data/real.jsonl"), pairs() + &pairs()).expect("written");
    let output = run(project.root(), &["--state-dir", "state", "plan", "p.toml"].map(OsStr::new));
    assert!(
        shown(&output).contains("file.data/link.jsonl"),
        "a change behind a link counts: {}",
        shown(&output)
    );
}

#[test]
fn a_pipeline_file_that_is_not_text() {
    let project = Project::new();
    project.write("p.toml", b"[pipeline]\nname = \"caf\xe9\"\n");
    let text = shown(&run(project.root(), &["validate", "p.toml"].map(OsStr::new)));
    assert!(text.starts_with("exit code Some(3)"), "{text}");
    assert!(text.contains("p.toml is not UTF-8 text: see line 2"), "{text}");
    assert!(text.contains("pipeline files are UTF-8") && !text.contains("relative paths"), "{text}");
}

#[test]
fn a_name_with_control_characters_is_a_mistake() {
    let project = Project::new();
    project.write("p.toml", pipeline("x.jsonl").replace("\"one\"", r#""o\u001b[31mne""#));
    let text = shown(&run(project.root(), &["validate", "p.toml"].map(OsStr::new)));
    assert!(text.contains("E0104") && text.contains("without control characters"), "{text}");
}

#[test]
fn what_cannot_be_written_is_not_a_success() {
    let project = Project::new();
    let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = command(project.root(), ["completions", "bash"]).stdout(full).output().expect("starts");
    assert_eq!(output.status.code(), Some(6), "{}", shown(&output));
    assert!(shown(&output).contains("cannot write to stdout"), "{}", shown(&output));

    // A reader that has seen enough is no error.
    let mut child = command(project.root(), ["completions", "bash"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("an exit code").code(), Some(0));
}

/// As somebody who may not write there; the test may run as root, whom nothing stops.
fn powerless(mut command: Command) -> Output {
    if nix_root() {
        command.uid(65_534);
    }
    command.output().expect("the program starts")
}

fn nix_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}

fn set_modes(folder: &Path, file_mode: u32, folder_mode: u32) {
    for entry in fs::read_dir(folder).expect("readable").flatten() {
        let mode = if entry.path().is_dir() { folder_mode } else { file_mode };
        if entry.path().is_dir() {
            set_modes(&entry.path(), file_mode, folder_mode);
        }
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode)).expect("mode");
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(folder_mode)).expect("mode");
}

#[test]
fn looking_needs_no_right_to_write() {
    let project = Project::new();
    project.write("data.jsonl", pairs());
    project.write("p.toml", pipeline("data.jsonl"));
    set_modes(project.root(), 0o444, 0o555);
    let look = |args: &[&str]| shown(&powerless(command(project.root(), args)));
    let fresh = look(&["plan", "p.toml"]);
    if fresh.contains("Permission denied") {
        // The program itself lies where others may not look.
        set_modes(project.root(), 0o644, 0o755);
        return;
    }
    assert!(fresh.starts_with("exit code Some(0)") && fresh.contains("never ran"), "{fresh}");

    set_modes(project.root(), 0o644, 0o755);
    let made = run(project.root(), &["run", "p.toml", "-q"].map(OsStr::new));
    assert!(made.status.success(), "{}", shown(&made));
    set_modes(project.root(), 0o444, 0o555);
    let texts = [
        look(&["plan", "p.toml"]),
        look(&["explain", "base"]),
        look(&["status"]),
        look(&["runs"]),
        look(&["validate", "p.toml"]),
        look(&["gc"]),
    ];
    set_modes(project.root(), 0o644, 0o755);
    assert!(texts.iter().all(|text| text.starts_with("exit code Some(0)")), "{texts:#?}");
    assert!(texts[0].contains("cached") && texts[1].contains("up to date"), "{texts:#?}");
}

#[test]
fn nothing_to_do_is_said_as_json_too() {
    let project = Project::new();
    project.write("data.jsonl", pairs());
    project.write("p.toml", pipeline("data.jsonl") + "\n[stages.report]\nkind = \"report\"\n");
    let json = |args: &[&str]| -> Value {
        let output = command(project.root(), args).output().expect("starts");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{args:?}: {}", shown(&output)))
    };
    let first = json(&["run", "p.toml", "-q", "--json"]);
    let again = json(&["run", "p.toml", "--json"]);
    assert_eq!(again["state"], "up-to-date");
    let page = again["report"].as_str().expect("the report's path");
    assert!(project.path(page).is_file() && first["report"] == again["report"], "{first} {again}");
    assert_eq!(json(&["resume", "--json"])["state"], "nothing-to-resume");
    let run_id = first["run_id"].as_str().expect("an id");
    assert_eq!(json(&["resume", run_id, "--json"])["state"], "succeeded");
}

#[test]
fn a_log_with_nothing_in_it_is_said() {
    let project = Project::new();
    project.write("data.jsonl", pairs());
    project.write("p.toml", pipeline("data.jsonl"));
    assert!(run(project.root(), &["run", "p.toml", "-q"].map(OsStr::new)).status.success());
    let text = shown(&run(project.root(), &["logs", "base"].map(OsStr::new)));
    assert!(text.contains("`base` (succeeded) has printed nothing"), "{text}");
}

/// Starts a run that never ends by itself, and waits until its stage works.
fn endless(project: &Project, with: &str) -> std::process::Child {
    project.write("data.jsonl", pairs());
    project.write("p.toml", pipeline("data.jsonl").replace("max_steps = 1", "max_steps = 100000000"));
    let program = env!("CARGO_BIN_EXE_pipeline");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{with} exec '{program}' run p.toml -q")).current_dir(project.root());
    let shell = shell.env_remove("PIPELINE_STATE_DIR").stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = shell.spawn().expect("sh starts");
    loop {
        let output = command(project.root(), ["status", "--json"]).output().expect("starts");
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if status["stages"][0]["progress"]["step"].as_u64() > Some(0) {
            return child;
        }
        assert!(child.try_wait().expect("a status").is_none(), "it ended: {status}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

fn signal(child: &std::process::Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success());
}

#[test]
fn a_terminal_that_goes_stops_the_run_as_term_does_unless_nohup() {
    let project = Project::new();
    let mut child = endless(&project, "");
    signal(&child, "-HUP");
    assert_eq!(child.wait().expect("an exit code").code(), Some(143));
    let status = shown(&run(project.root(), &["status"].map(OsStr::new)));
    assert!(status.contains("stopped") && !status.contains("running"), "{status}");

    let project = Project::new();
    let mut child = endless(&project, "trap '' HUP;");
    signal(&child, "-HUP");
    signal(&child, "-INT");
    assert_eq!(child.wait().expect("an exit code").code(), Some(130), "HUP was not what stopped it");
}
