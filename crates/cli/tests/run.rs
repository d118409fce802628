//! A tiny pipeline from start to end: run, again, changed, forced, refused, stopped.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::Project;

/// Trains a model of 30,000 parameters for a moment.
const TINY: &str = r#"[pipeline]
name = "tiny"

[lora]
r = 4

[stages.base]
kind = "pretrain"
format = "synthetic-qa"
questions = 120
vocab_size = 300
hidden_size = 16
intermediate_size = 32
num_hidden_layers = 1
num_attention_heads = 2
num_key_value_heads = 1
max_position_embeddings = 256
max_length = 64
max_steps = 4

[stages.data]
kind = "prepare"
format = "synthetic-qa"
questions = 120
model = "base"
eval = 12
max_prompt_length = 120
max_response_length = 120

[stages.sft]
kind = "hydra-sft"
model = "base"
data = "data"
max_steps = 4

[stages.reward]
kind = "reward-eval"
model = "sft"
data = "data"
min_accuracy = 0.0

[stages.ppo]
kind = "ppo"
model = "sft"
data = "data"
requires = ["reward"]
total_episodes = 8
batch_size = 4
response_length = 8

[stages.report]
kind = "report"
"#;

fn command(project: &Project, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pipeline"));
    command.args(args).current_dir(project.root()).env_remove("PIPELINE_STATE_DIR");
    command
}

fn run(project: &Project, args: &[&str]) -> Output {
    command(project, args).output().expect("the program starts")
}

/// What a command printed, after checking its exit code.
fn stdout(project: &Project, args: &[&str], code: i32) -> String {
    let output = run(project, args);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}\n{out}\n{err}");
    out.into_owned()
}

fn json(project: &Project, args: &[&str]) -> Value {
    serde_json::from_str(&stdout(project, args, 0)).expect("JSON on stdout")
}

fn project(text: &str) -> Project {
    let project = Project::new();
    project.write("p.toml", text);
    project
}

/// Names of the stages that `plan` would run.
fn to_run(project: &Project, args: &[&str]) -> Vec<String> {
    let plan = json(project, &[&["plan", "p.toml", "--json"], args].concat());
    let decisions = plan["decisions"].as_array().expect("decisions").clone();
    let running = decisions.iter().filter(|decision| decision["action"] == "run");
    running.filter_map(|decision| decision["stage"].as_str().map(str::to_owned)).collect()
}

/// Bytes of a stage's result.
fn result(project: &Project, stage: &str, file: &str) -> Vec<u8> {
    let status = json(project, &["status", "--json"]);
    let stages = status["stages"].as_array().expect("stages");
    let found = stages.iter().find(|view| view["name"] == stage).expect("the stage");
    let folder = found["path"].as_str().expect("a result");
    std::fs::read(Path::new(folder).join(file)).expect("the file")
}

#[test]
fn a_pipeline_runs_once_and_changes_run_again() {
    let project = project(TINY);
    let first = stdout(&project, &["run", "p.toml"], 0);
    assert!(first.contains("STAGE") && first.contains("report: .pipeline/artifacts/report-"), "{first}");

    let again = stdout(&project, &["run", "p.toml"], 0);
    assert!(again.starts_with("p.toml: up to date, nothing to run; report: "), "{again}");
    assert_eq!(again.lines().count(), 1);
    assert_eq!(json(&project, &["runs", "--json"]).as_array().map(Vec::len), Some(1));

    assert_eq!(to_run(&project, &["--set", "stages.ppo.kl_coef=0.5"]), ["ppo", "report"]);
    assert!(to_run(&project, &["--set", "stages.ppo.save_steps=1", "--set", "executor.cpus=1"]).is_empty());
    let why = stdout(&project, &["explain", "ppo", "--set", "stages.ppo.kl_coef=0.5"], 0);
    assert!(why.contains("will run: config.kl_coef: 0.02 → 0.5"), "{why}");

    let adapter = "actor/adapter_model.safetensors";
    let before = result(&project, "ppo", adapter);
    stdout(&project, &["run", "p.toml", "--force", "sft"], 0);
    assert_eq!(result(&project, "ppo", adapter), before, "the same seed gives the same bytes");
}

#[test]
fn e12_e14_resume_says_what_the_file_says_by_now() {
    let text = TINY.replace("min_accuracy = 0.0", "min_accuracy = 1.0");
    let project = project(&text);
    let refused = stdout(&project, &["run", "p.toml"], 8);
    assert!(refused.contains("reward  refused") && refused.contains("ppo     skipped"), "{refused}");

    project.write("p.toml", text.replace("kind = \"ppo\"", "kind = \"ppo\"\nkl_coef = 0.5"));
    let output = run(&project, &["resume"]);
    assert_eq!(output.status.code(), Some(8), "what a gate refused stays refused");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("  ppo: config.kl_coef: 0.02 → 0.5"), "{said}");

    project.write("p.toml", TINY);
    assert_eq!(to_run(&project, &[]), ["reward", "ppo", "report"]);
    stdout(&project, &["run", "p.toml", "-q"], 0);
}

/// Ends the program even when a test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until the stage at that position has made a step.
fn wait_for_progress(project: &Project, stage: usize) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while Instant::now() < deadline {
        let output = run(project, &["status", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if status["stages"][stage]["progress"]["step"].as_u64() > Some(0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn ctrl_c_stops_with_130_and_a_second_run_of_it_is_locked() {
    let project = project(&TINY.replace("total_episodes = 8", "total_episodes = 4000000"));
    let mut command = command(&project, &["run", "p.toml", "-q"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    let mut child = Running(child);
    wait_for_progress(&project, 4);
    let runs = json(&project, &["runs", "--json"]);
    let id = runs[0]["id"].as_str().expect("a run");
    stdout(&project, &["resume", id], 4);

    let kill = Command::new("kill").args(["-INT", &child.0.id().to_string()]).status().expect("kill");
    assert!(kill.success());
    assert_eq!(child.0.wait().expect("an exit code").code(), Some(130));
    let status = json(&project, &["status", "--json"]);
    assert_eq!(
        (&status["run"]["state"], &status["stages"][4]["state"]),
        (&"stopped".into(), &"stopped".into())
    );
}

#[test]
fn a_part_of_a_pipeline_is_run() {
    let project = project(TINY);
    let refused = run(&project, &["run", "p.toml", "--only", "data"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(said.contains("`data` needs `base`, which has not been made"), "{said}");
    stdout(&project, &["run", "p.toml", "--until", "base"], 0);
    assert_eq!(to_run(&project, &[]), ["data", "sft", "reward", "ppo", "report"]);
    stdout(&project, &["run", "p.toml", "--only", "data"], 0);
    assert_eq!(to_run(&project, &["--until", "reward"]), ["sft", "reward"]);
    stdout(&project, &["run", "p.toml", "--until", "reward"], 0);
    assert_eq!(to_run(&project, &["--from", "sft", "--until", "reward"]), ["sft", "reward"]);
    let refused = run(&project, &["plan", "p.toml", "--only", "dta"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("did you mean `data`?"));
}

#[test]
fn a_run_is_paused_from_another_terminal_and_goes_on() {
    let project =
        project(&TINY.replace("max_steps = 4\n\n[stages.data]", "max_steps = 400000\n\n[stages.data]"));
    let mut command = command(&project, &["run", "p.toml", "-q"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    let mut child = Running(child);
    wait_for_progress(&project, 0);
    let said = stdout(&project, &["pause"], 0);
    assert!(said.contains(" stopped; `pipeline resume "), "{said}");
    assert_eq!(child.0.wait().expect("an exit code").code(), Some(130));
    assert!(stdout(&project, &["cancel"], 0).contains("is not running: stopped"));
}
