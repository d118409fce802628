//! Making room, and looking at what is there: `gc` and `runs rm` as a person types them.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use testkit::Project;

/// One stage that takes a moment.
const ONE: &str = r#"[pipeline]
name = "one"

[stages.base]
kind = "pretrain"
format = "synthetic-qa"
questions = 60
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

fn command(project: &Project, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pipeline"));
    command.args(args).current_dir(project.root()).env_remove("PIPELINE_STATE_DIR").env_remove("NO_COLOR");
    command
}

fn run(project: &Project, args: &[&str]) -> Output {
    command(project, args).output().expect("the program starts")
}

/// Exit code, stdout and stderr in one text.
fn show(project: &Project, args: &[&str]) -> String {
    shown(&run(project, args))
}

fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().map_or_else(|| "none".into(), |code| code.to_string());
    format!("exit code {code}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), text(&output.stderr))
}

fn json(project: &Project, args: &[&str]) -> Value {
    serde_json::from_slice(&run(project, args).stdout).expect("JSON on stdout")
}

macro_rules! snapshot {
    ($text:expr) => {{
        let mut settings = insta::Settings::clone_current();
        settings.set_filters(testkit::filters());
        settings.add_filter(r"\bone-[0-9a-f]{8}\b", "[run]");
        settings.add_filter(r"\bbase-[0-9a-f]{10}\b", "base-[attempt]");
        settings.add_filter(r"\b\d+ B\b", "[size]");
        settings.add_filter(r" {2,}", "  ");
        settings.bind(|| insta::assert_snapshot!($text));
    }};
}

#[test]
fn e133_gc_shows_and_force_removes() {
    let project = Project::new();
    project.write("p.toml", ONE);
    for seed in ["1", "2"] {
        let output = run(&project, &["run", "p.toml", "-q", "--set", &format!("pipeline.seed={seed}")]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    snapshot!(show(&project, &["gc"]));
    snapshot!(show(&project, &["gc", "--keep-runs", "1"]));
    assert_eq!(json(&project, &["gc", "--older-than", "1d", "--json"])["items"], Value::Array(vec![]));
    snapshot!(show(&project, &["gc", "--older-than", "tomorrow"]));

    let dry = json(&project, &["gc", "--keep-runs", "1", "--json"]);
    let mut removed = json(&project, &["gc", "--keep-runs", "1", "--force", "--json"]);
    assert!(removed["bytes"].as_u64() > Some(0));
    removed["removed"] = false.into();
    assert_eq!(removed, dry, "what was shown is what went");
    let kept = run(&project, &["run", "p.toml", "--set", "pipeline.seed=2"]);
    assert!(String::from_utf8_lossy(&kept.stdout).contains("up to date"));

    let newest = json(&project, &["runs", "--json"])[0]["id"].as_str().expect("a run").to_owned();
    snapshot!(show(&project, &["runs", "rm", &newest]));
    snapshot!(show(&project, &["runs", "rm", &newest]));
    snapshot!(show(&project, &["gc", "--force"]));
}

#[test]
fn a_network_file_system_is_used_and_said() {
    let project = Project::new();
    project.write("p.toml", ONE);
    let far =
        |args: &[&str]| command(&project, args).env("PIPELINE_NETWORK_FS", "1").output().expect("starts");
    let first = shown(&far(&["run", "p.toml"]));
    assert!(first.starts_with("exit code 0"), "{first}");
    let said = ".pipeline lies on a network file system: its database works without a write-ahead log there";
    assert!(first.contains(said) && first.contains("--state-dir names"), "{first}");
    let again = shown(&far(&["run", "p.toml"]));
    assert!(again.contains("up to date") && !again.contains("lies on"), "{again}");
    assert!(shown(&far(&["status"])).contains("succeeded"));
    assert!(!project.path(".pipeline/state.db-wal").exists());
}

#[test]
fn diff_says_what_differs_and_what_came_out() {
    let project = Project::new();
    project.write("p.toml", ONE);
    let changes = [&[][..], &["--set", "stages.base.max_steps=2"]];
    for change in changes {
        assert!(run(&project, &[&["run", "p.toml", "-q"], change].concat()).status.success());
    }
    let runs = json(&project, &["runs", "--json"]);
    let id = |at: usize| runs[at]["id"].as_str().expect("a run").to_owned();
    let text = shown(&run(&project, &["diff", &id(1), &id(0)]));
    assert!(text.contains("\nbase\n  config.max_steps: 1 → 2\n"), "{text}");
    let row = |name: &str| text.lines().any(|line| line.trim_start().starts_with(name));
    assert!(row("time") && row("memory") && row("held_out.loss_after"), "{text}");
    let same = shown(&run(&project, &["diff", &id(0), &id(0)]));
    assert!(same.contains("the same in both: base") && !same.contains("config."), "{same}");

    let found = json(&project, &["diff", &id(1), &id(0), "--json"]);
    assert_eq!(found["stages"][0]["changes"][0]["part"], "config.max_steps");
    assert!(found["stages"][0]["new"]["seconds"].as_f64() > Some(0.0));
    assert_eq!(run(&project, &["diff", &id(0), "nobody"]).status.code(), Some(2));
}

/// Checks of a `doctor` with their levels, those of the machine left out.
fn levels(project: &Project, args: &[&str], code: i32) -> String {
    let output = run(project, &[&["doctor", "--json"], args].concat());
    assert_eq!(output.status.code(), Some(code), "{}", shown(&output));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    let findings = found["findings"].as_array().expect("findings").iter();
    let ours = findings.filter(|f| {
        !["processors", "memory", "GPUs", "Slurm", "disk"].iter().any(|check| f["check"] == *check)
    });
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |f: &Value| format!("{} {}: {}\n", text(&f["level"]), text(&f["check"]), text(&f["message"]));
    ours.map(line).collect()
}

#[test]
fn doctor_finds_what_is_wrong() {
    let project = Project::new();
    project.write("p.toml", ONE);
    let nothing = levels(&project, &[], 0);
    assert!(nothing.contains("ok database: there is none at"), "{nothing}");
    assert!(!project.path(".pipeline").exists(), "looking makes nothing");
    assert!(run(&project, &["run", "p.toml", "-q"]).status.success());
    snapshot!(levels(&project, &[], 0));
    snapshot!(levels(&project, &["--deep"], 0));

    let text = shown(&run(&project, &["doctor"]));
    assert!(text.contains("\nok       processors: ") && text.contains("\nok       memory: "), "{text}");

    project.folder(".pipeline/attempts/nobody");
    let artifact = std::fs::read_dir(project.path(".pipeline/artifacts")).expect("results").next();
    let file = artifact.expect("one").expect("one").path().join("config.json");
    let mut bytes = std::fs::read(&file).expect("a file of the result");
    bytes[0] = b' ';
    std::fs::write(&file, &bytes).expect("written");
    assert!(levels(&project, &[], 0).contains("warning orphans"));
    assert!(levels(&project, &["--deep"], 1).contains("problem results: 1 of 1 are missing or damaged"));
    bytes.pop();
    std::fs::write(&file, &bytes).expect("written");
    assert!(levels(&project, &[], 1).contains("problem results"));

    let database = project.path(".pipeline/state.db");
    let whole = std::fs::read(&database).expect("the database");
    std::fs::write(&database, &whole[..whole.len() - 4096]).expect("written");
    assert!(levels(&project, &[], 1).contains("is damaged: it is cut short"));
    assert_eq!(run(&project, &["run", "p.toml"]).status.code(), Some(6), "and `run` notices");

    // Garbage in the midst of it is found by whoever comes across it.
    let mut torn = whole.clone();
    torn[4096..].fill(0x5a);
    std::fs::write(&database, &torn).expect("written");
    assert!(levels(&project, &[], 1).contains("problem database"));
    for command in [&["run", "p.toml"][..], &["plan", "p.toml"], &["status"], &["gc", "--force"]] {
        let text = shown(&run(&project, command));
        assert!(text.starts_with("exit code 6") && text.contains("E0303"), "{command:?}: {text}");
    }
}

#[test]
fn e35_what_lives_is_neither_collected_nor_removed() {
    let project = Project::new();
    project.write("p.toml", ONE.replace("max_steps = 1", "max_steps = 100000000"));
    let mut driver = command(&project, &["run", "p.toml", "-q"]);
    let mut driver = driver.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    let id = loop {
        let status = run(&project, &["status", "--json"]);
        let status: Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
        if status["stages"][0]["progress"]["step"].as_u64() > Some(0) {
            break status["run"]["id"].as_str().expect("an id").to_owned();
        }
        assert!(driver.try_wait().expect("a status").is_none(), "it ended: {status}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    let stays = |why: &str| {
        let collected = shown(&run(&project, &["gc", "--keep-runs", "0", "--force"]));
        assert!(collected.contains("there is nothing to remove"), "{collected}");
        let refused = shown(&run(&project, &["runs", "rm", &id]));
        assert!(refused.starts_with("exit code 4") && refused.contains(why), "{refused}");
    };
    stays("belongs to a live process");
    driver.kill().expect("killed");
    driver.wait().expect("it ended");
    assert!(shown(&run(&project, &["status"])).contains("interrupted"));
    stays("a worker of it runs, or may");

    // Stops the worker that its driver left behind.
    run(&project, &["cancel", &id]);
    let removed = shown(&run(&project, &["runs", "rm", &id]));
    assert!(removed.starts_with("exit code 0"), "{removed}");
    run(&project, &["gc", "--force"]);
    let count =
        |name: &str| std::fs::read_dir(project.path(".pipeline").join(name)).map_or(0, Iterator::count);
    assert_eq!((count("attempts"), count("artifacts"), count("trash")), (0, 0, 0));
}
