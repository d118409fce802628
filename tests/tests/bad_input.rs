//! Bad input ends before anything is trained, with a message that says what and where.

use e2e::pipeline;
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
