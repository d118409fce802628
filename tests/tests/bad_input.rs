//! Bad input ends before anything is trained, with a message that says what and where.

use e2e::{expect, pipeline};
use testkit::Project;

/// A pipeline that pretrains on the dump and prepares it.
fn on_dump(dump: &str) -> Project {
    let project = Project::new();
    project.write("posts.xml", dump);
    project.write(
        "p.toml",
        r#"
[pipeline]
name = "p"

[stages.base]
kind = "pretrain"
format = "stackexchange-dump"
path = "posts.xml"
hidden_size = 16
intermediate_size = 16
num_attention_heads = 2
num_hidden_layers = 1
max_steps = 1

[stages.data]
kind = "prepare"
model = "base"
format = "stackexchange-dump"
path = "posts.xml"

[stages.sft]
kind = "hydra-sft"
model = "base"
data = "data"
max_steps = 1
"#,
    );
    project
}

/// Runs `p.toml`; it must end with `code` and say all of `parts`.
fn run(project: &Project, code: i32, parts: &[&str]) {
    let output = pipeline(project.root(), &["run", "p.toml"]).output().expect("pipeline starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    for part in parts {
        assert!(said.contains(part), "`{part}` is missing in:\n{said}");
    }
}

/// What only reading the whole file can tell: the first stage fails before it trains and leaves no result.
fn failed(project: &Project, parts: &[&str]) {
    run(project, 1, parts);
    let made = std::fs::read_dir(project.path(".pipeline/artifacts")).map_or(0, Iterator::count);
    assert_eq!(made, 0, "nothing half-made is left");
}

/// What can be known beforehand: no stage may have started.
fn refused(project: &Project, code: i32, parts: &[&str]) {
    run(project, code, parts);
    let started = std::fs::read_dir(project.path(".pipeline/attempts")).map_or(0, Iterator::count);
    assert_eq!(started, 0, "no stage has started");
}

#[test]
fn a_file_that_is_not_a_dump() {
    let project = on_dump("<?xml version=\"1.0\"?><html><body>no dump</body></html>");
    refused(&project, 3, &["E0402", "posts.xml", "<posts>"]);
}

#[test]
fn an_empty_dump() {
    refused(&on_dump("<?xml version=\"1.0\"?>\n<posts>\n</posts>\n"), 3, &["E0403", "posts.xml"]);
    refused(&on_dump(""), 3, &["posts.xml"]);
}

#[test]
fn rows_without_score_or_body() {
    let question = r#"<row Id="6" PostTypeId="1" Score="1" Title="t" Body="b" />"#;
    let answer = |attributes: &str| {
        on_dump(&format!(
            "<posts>\n{question}\n<row Id=\"7\" PostTypeId=\"2\" ParentId=\"6\" {attributes} />\n</posts>\n"
        ))
    };
    failed(&answer("Score=\"1\""), &["E0404", "posts.xml", "Id 7", "Body"]);
    failed(&answer("Body=\"b\""), &["E0404", "posts.xml", "Id 7", "Score"]);
}

#[test]
fn a_missing_file_and_a_stage_that_is_not_there() {
    let project = on_dump("<posts></posts>");
    std::fs::remove_file(project.path("posts.xml")).expect("it was there");
    refused(&project, 3, &["E0401", "p.toml", "posts.xml"]);
    let text = project.read("p.toml").replace("data = \"data\"", "data = \"dta\"");
    project.write("p.toml", text);
    refused(&project, 3, &["dta", "data", "p.toml"]);
}

#[test]
fn a_model_folder_without_tokenizer() {
    let project = on_dump("<posts></posts>");
    project.write("base/config.json", "{}");
    project.write("base/model.safetensors", "");
    let text = project.read("p.toml").replace("model = \"base\"", "");
    let start = text.find("[stages.base]").expect("it is there");
    let end = text.find("[stages.data]").expect("it is there");
    let text = format!("{}[model]\nbase = \"base\"\n\n{}", &text[..start], &text[end..]);
    project.write("p.toml", text);
    refused(&project, 3, &["tokenizer.json", "base"]);
}

/// One changed byte in a result is found before another stage makes something of it.
#[test]
fn a_result_that_has_changed_is_not_used() {
    let project = on_dump("<posts></posts>");
    let text = project
        .read("p.toml")
        .replace("stackexchange-dump", "synthetic-qa")
        .replace("path = \"posts.xml\"", "");
    let end = text.find("[stages.sft]").expect("it is there");
    project.write("p.toml", format!("{}questions = 40\neval = 4\n", &text[..end]));
    expect(project.root(), &["run", "p.toml"], 0);
    let artifacts =
        std::fs::read_dir(project.path(".pipeline/artifacts")).expect("there are results").flatten();
    let base = artifacts
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().contains("pretrain-"))
        .expect("the model is one of them");
    let mut weights = std::fs::read(base.join("model.safetensors")).expect("it reads");
    *weights.last_mut().expect("it has bytes") ^= 1;
    std::fs::write(base.join("model.safetensors"), weights).expect("it writes");
    let output = expect(project.root(), &["run", "p.toml", "--force", "data"], 1);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("E0902") && said.contains("model.safetensors"), "{said}");
    std::fs::remove_dir_all(&base).expect("what the message advises");
    expect(project.root(), &["run", "p.toml", "--force", "data"], 0);
}

#[test]
fn a_secret_in_the_judges_url_is_refused_and_not_shown() {
    let project = on_dump("<posts></posts>");
    let judge = r#"
[stages.answers]
kind = "generate"
models = ["sft"]
data = "data"

[stages.judge]
kind = "judge"
completions = "answers"
provider = "openai"
model = "m"
base_url = "http://user:sk-hidden@localhost/v1"
"#;
    project.write("p.toml", project.read("p.toml") + judge);
    let output = expect(project.root(), &["run", "p.toml"], 3);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("base_url") && !said.contains("sk-hidden"), "{said}");
    assert!(!project.path(".pipeline").exists(), "nothing is kept of it");
}
