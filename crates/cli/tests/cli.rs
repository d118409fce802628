//! Whole commands as a person types them: output, messages and exit codes, as snapshots.

use std::path::Path;
use std::process::{Command, Output};

use testkit::Project;

/// A pipeline that needs no files.
const GOOD: &str = r#"[pipeline]
name = "small"

[stages.base]
kind = "pretrain"
format = "synthetic-qa"
questions = 300

[stages.data]
kind = "prepare"
format = "synthetic-qa"
questions = 300
model = "base"
eval = 50

[stages.sft]
kind = "hydra-sft"
model = "base"
data = "data"

[stages.reward]
kind = "reward-eval"
model = "sft"
data = "data"

[stages.ppo]
kind = "ppo"
model = "sft"
data = "data"
requires = ["reward"]
"#;

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pipeline"));
    command.args(args).current_dir(folder).env_remove("PIPELINE_STATE_DIR").env_remove("NO_COLOR");
    command
}

/// Exit code, stdout and stderr in one text.
fn show(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().map_or_else(|| "none".into(), |code| code.to_string());
    format!("exit code {code}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), text(&output.stderr))
}

fn run(project: &Project, args: &[&str]) -> String {
    show(&command(project.root(), args).output().expect("the program starts"))
}

/// A folder with the good pipeline in `p.toml`.
fn project() -> Project {
    let project = Project::new();
    project.write("p.toml", GOOD);
    project
}

macro_rules! snapshot {
    ($text:expr) => {{
        let mut settings = insta::Settings::clone_current();
        settings.set_filters(testkit::filters());
        settings.bind(|| insta::assert_snapshot!($text));
    }};
}

#[test]
fn help() {
    snapshot!(run(&Project::new(), &["--help"]));
}

#[test]
fn validate_a_good_file() {
    let project = project();
    snapshot!(run(&project, &["validate", "p.toml"]));
    assert!(!project.path(".pipeline").exists(), "looking makes nothing");
}

#[test]
fn validate_shows_all_mistakes() {
    let project = project();
    project.write(
        "bad.toml",
        GOOD.replace("data = \"data\"\nrequires", "data = \"dota\"\nkl_coeff = 1\nrequires"),
    );
    snapshot!(run(&project, &["validate", "bad.toml"]));
    snapshot!(run(&project, &["validate", "--json", "bad.toml"]));
}

#[test]
fn e64_a_cycle_is_on_stderr_with_exit_code_3() {
    let project = project();
    project.write(
        "cycle.toml",
        GOOD.replace("kind = \"pretrain\"", "kind = \"pretrain\"\nrequires = [\"ppo\"]"),
    );
    let text = run(&project, &["run", "cycle.toml"]);
    assert!(text.starts_with("exit code 3\n--- stdout\n--- stderr\n"), "{text}");
    assert!(text.contains("base → ppo → sft → base"), "{text}");
    assert!(text.contains("cycle.toml:6:13"), "{text}");
}

#[test]
fn files_are_checked_before_anything_runs() {
    let project = project();
    let model = project.folder("model");
    project.write("model/config.json", "{ \"max_position_embeddings\": 100 }");
    project.write("page.xml", "<html></html>");
    project.write("empty.jsonl", "");
    assert!(model.is_dir());
    let text = "[pipeline]\nname = \"t\"\n[model]\nbase = \"model\"\n\
                [stages.a]\nkind = \"prepare\"\npath = \"nowhere.jsonl\"\n\
                [stages.b]\nkind = \"prepare\"\npath = \"page.xml\"\nformat = \"stackexchange-dump\"\n\
                [stages.c]\nkind = \"prepare\"\npath = \"empty.jsonl\"\n";
    project.write("files.toml", text);
    snapshot!(run(&project, &["run", "files.toml"]));
    assert!(!project.path(".pipeline").exists(), "nothing was begun");
}

#[test]
#[cfg(not(feature = "cuda"))]
fn a_gpu_without_cuda_in_the_program_is_refused_before_anything_runs() {
    let project = project();
    let text = project.read("p.toml") + "\n[model]\ndevice = \"cuda:1\"\n";
    project.write("gpu.toml", text);
    snapshot!(run(&project, &["validate", "gpu.toml"]));
    snapshot!(run(&project, &["run", "gpu.toml"]));
}

#[test]
fn plan_and_graph() {
    let project = project();
    snapshot!(run(&project, &["plan", "p.toml"]));
    snapshot!(run(&project, &["graph", "p.toml"]));
    snapshot!(run(&project, &["graph", "p.toml", "--format", "dot"]));
    snapshot!(run(&project, &["plan", "p.toml", "--force", "pppo"]));
}

#[test]
fn plan_as_json_has_parts_and_reasons() {
    let project = project();
    let output = command(project.root(), &["plan", "p.toml", "--json"]).output().expect("the program starts");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    assert_eq!(json["plan"]["stages"][4]["parts"]["config.kl_coef"], "0.02");
    assert_eq!(json["decisions"][0]["reasons"][0]["reason"], "never-ran");
}

#[test]
fn without_runs() {
    let project = project();
    for args in [&["status"][..], &["runs"], &["resume"], &["logs", "base"], &["plan"]] {
        snapshot!(run(&project, args));
    }
    assert!(!project.path(".pipeline").exists(), "looking makes nothing");
}

#[test]
fn e134_exit_codes_of_wrong_calls() {
    let project = project();
    let code =
        |args: &[&str]| command(project.root(), args).output().expect("the program starts").status.code();
    assert_eq!(code(&["validate", "nowhere.toml"]), Some(3));
    assert_eq!(code(&["rnu", "p.toml"]), Some(2));
    assert_eq!(code(&["run"]), Some(2));
    assert_eq!(code(&["explain", "nobody", "--file", "p.toml"]), Some(2));
    assert_eq!(code(&["validate", "p.toml", "--set", "stages.ppo.kl_coef=yes"]), Some(3));
    project.write(".pipeline/state.db", "not a database");
    assert_eq!(code(&["status"]), Some(6));
}

#[test]
fn colours_only_where_wanted() {
    let project = project();
    let plain = run(&project, &["validate", "nowhere.toml"]);
    assert!(!plain.contains('\x1b'), "off a terminal: {plain:?}");
    let always = run(&project, &["validate", "nowhere.toml", "--color", "always"]);
    assert!(always.contains('\x1b'), "{always:?}");
}

#[test]
fn completions() {
    let text = run(&Project::new(), &["completions", "zsh"]);
    assert!(text.contains("#compdef pipeline"), "{text}");
}

/// `docs/reference/cli.md` is what the program says of itself.
#[test]
fn the_reference_page_is_up_to_date() {
    let empty = Project::new();
    let help = |args: &[&str]| {
        let output = command(empty.root(), args).env("COLUMNS", "100").output().expect("the program starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    };
    let mut page = String::from(PAGE);
    page.push_str(&format!("\n## pipeline\n\n```text\n{}\n```\n", help(&["--help"])));
    let commands = [
        "run",
        "resume",
        "plan",
        "status",
        "runs",
        "logs",
        "explain",
        "graph",
        "validate",
        "gc",
        "completions",
    ];
    for name in commands {
        page.push_str(&format!("\n## pipeline {name}\n\n```text\n{}\n```\n", help(&[name, "-h"])));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    if std::env::var_os("PIPELINE_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("the page");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "out of date: PIPELINE_UPDATE_DOCS=1 cargo test -p cli --test cli");
}

const PAGE: &str = "\
# Commands

<!-- Generated: `PIPELINE_UPDATE_DOCS=1 cargo test -p cli --test cli`. -->

Data goes to stdout, progress and errors to stderr. `--json` prints data for programs. Off a terminal nothing is
redrawn; NO_COLOR is honoured. Where a RUN can be named, the start or the end of its id will do.

The first Ctrl-C asks running stages to write a checkpoint and stop, the second sends them TERM, the third KILL.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a stage failed |
| 2 | the command was not called as it must be |
| 3 | mistakes in the pipeline file, or in what it names |
| 4 | a live process holds the run |
| 5 | no stage could be started |
| 6 | the state folder or its database cannot be used, or the output cannot be written |
| 8 | a gate refused |
| 130 | stopped by Ctrl-C |
| 143 | stopped by TERM, or by HUP when the terminal went (not under `nohup`) |
";
