//! What makes a stage run again, on the real binary; and that secrets stay where they are.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use e2e::{expect, pipeline, storm};
use testkit::Project;

const BASE: &str = r#"
[pipeline]
name = "reuse"

[stages.base]
kind = "pretrain"
path = "text.jsonl"
vocab_size = 300
hidden_size = 16
intermediate_size = 16
num_hidden_layers = 1
num_attention_heads = 2
num_key_value_heads = 2
max_length = 32
per_device_train_batch_size = 4
max_steps = 2

[stages.report]
kind = "report"
"#;

fn texts(last: &str) -> String {
    let mut rows: Vec<String> =
        (0..30).map(|n| format!("{{\"text\": \"the cat number {n} sat\"}}")).collect();
    rows.push(format!("{{\"text\": \"{last}\"}}"));
    rows.join("\n")
}

/// How many workers have begun on `base` after another run, with further arguments.
fn made(dir: &Path, arguments: &[&str]) -> usize {
    expect(dir, &[&["run", "p.toml"], arguments].concat(), 0);
    storm::begun(dir)["base"]
}

#[test]
fn e53_e58_touch_runs_nothing_one_byte_and_force_do() {
    let project = Project::new();
    let dir = project.root();
    project.write("p.toml", BASE);
    let text = project.write("text.jsonl", texts("the dog ran"));
    assert_eq!(made(dir, &[]), 1);
    assert_eq!(made(dir, &[]), 1, "nothing has changed; `report`, which reads no file, is kept as well");
    let touch = |time| File::options().write(true).open(&text).expect("it is there").set_modified(time);
    for time in [SystemTime::now() + Duration::from_secs(90), SystemTime::UNIX_EPOCH] {
        touch(time).expect("times can be set");
        assert_eq!(made(dir, &[]), 1, "touched");
    }
    let before = std::fs::metadata(&text).expect("it is there").modified().expect("a time");
    project.write("text.jsonl", texts("the dog ram"));
    touch(before).expect("times can be set");
    assert_eq!(made(dir, &[]), 2, "one byte, with the size and time of before");
    project.write("text.jsonl", texts("the dog ran"));
    assert_eq!(made(dir, &[]), 2, "the first result is still known");
    assert_eq!(made(dir, &["--force", "base"]), 3, "forced");
}

/// Every file below `folder` that holds `secret`.
fn holding(folder: &Path, secret: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("the folder reads").flatten() {
        let path = entry.path();
        if path.is_dir() {
            holding(&path, secret, found);
        } else if std::fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(secret.len()).any(|w| w == secret.as_bytes()))
        {
            found.push(path.display().to_string());
        }
    }
}

#[test]
fn e131_a_secret_is_in_no_file_no_database_and_no_output() {
    const SECRET: &str = "sekret-7f3a90cc";
    let project = Project::new();
    let dir = project.root();
    let judged = r#"
[stages.judge]
kind = "judge"
completions = "answers"
provider = "openai"
model = "m"
base_url = "http://127.0.0.1:9/v1"
max_attempts = 1
[stages.answers]
kind = "generate"
models = ["base", "other"]
data = "data"
max_new_tokens = 4
[stages.other]
kind = "sft"
model = "base"
data = "data"
max_steps = 1
"#;
    project.write("p.toml", format!("{}{judged}", storm::PIPELINE));
    let mut command = pipeline(dir, &["run", "p.toml"]);
    command.env("OPENAI_API_KEY", SECRET).env("HF_TOKEN", SECRET).env("RUST_LOG", "trace");
    let output = command.output().expect("pipeline starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(storm::begun(dir).contains_key("judge"), "the key was used, in vain: {said}");
    assert_ne!(output.status.code(), Some(0), "nobody answers");
    assert!(!said.contains(SECRET), "{said}");
    let mut found = Vec::new();
    holding(dir, SECRET, &mut found);
    assert!(found.is_empty(), "{found:?}");
}
