//! What a person sees when a pipeline file is wrong, as snapshots of the whole message.

use miette::{GraphicalReportHandler, GraphicalTheme};
use spec::{Override, Pipeline, SpecErrors, parse};

/// A file without mistakes; the others change a line of it.
const GOOD: &str = r#"[pipeline]
name = "test"

[lora]
r = 8

[stages.base]
kind = "pretrain"
format = "jsonl"
path = "text.jsonl"

[stages.data]
kind = "prepare"
path = "pairs.jsonl"
model = "base"
split = { sft = 6, ppo = 4 }

[stages.sft]
kind = "hydra-sft"
model = "base"
data = "data"

[stages.reward]
kind = "reward-eval"
model = "sft"
data = "data"
min_accuracy = "55%"

[stages.ppo]
kind = "ppo"
model = "sft"
data = "data"
requires = ["reward"]

[stages.answers]
kind = "generate"
models = ["sft", "ppo"]
data = "data"

[stages.judge]
kind = "judge"
completions = "answers"
model = "sft"
"#;

fn good(sets: &[&str]) -> Result<Pipeline, SpecErrors> {
    let overrides: Vec<_> = sets.iter().map(|set| Override((*set).to_owned())).collect();
    parse("test.toml", GOOD, &overrides)
}

fn show(result: Result<Pipeline, SpecErrors>) -> String {
    let errors = result.expect_err("the file has mistakes");
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_width(110);
    let mut text = String::new();
    for mistake in &errors.mistakes {
        handler.render_report(&mut text, mistake).expect("a report");
    }
    text.push_str(&errors.to_string());
    text
}

/// The good file with `from` replaced.
fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from:?} is not in the file");
    show(parse("test.toml", &GOOD.replacen(from, to, 1), &[]))
}

#[test]
fn a_good_file_is_read() {
    let pipeline = good(&[]).expect("no mistakes");
    let names: Vec<_> = pipeline.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["base", "data", "sft", "reward", "ppo", "answers", "judge"]);
    let spec::StageConfig::RewardEval(reward) = &pipeline.stages[3].config else { panic!("a reward-eval") };
    assert_eq!(reward.min_accuracy, 0.55);
    assert_eq!(pipeline.dependencies(&pipeline.stages[4]), ["sft", "data", "reward"]);
}

#[test]
fn a97_unknown_keys_name_section_and_nearest() {
    insta::assert_snapshot!(with("r = 8", "lora_ranl = 4\nr = 8\nalpha = 2"));
    insta::assert_snapshot!(with(
        "model = \"sft\"\ndata = \"data\"\nrequires",
        "model = \"sft\"\nlora_alpha = 16\nkl_coeff = 1\ndata = \"data\"\nrequires"
    ));
}

#[test]
fn e66_unknown_tables_are_mistakes() {
    insta::assert_snapshot!(with("[lora]", "[lorra]"));
    insta::assert_snapshot!(with("[stages.base]", "[base]"));
}

#[test]
fn all_mistakes_at_once() {
    let text = GOOD
        .replace("r = 8", "r = \"8\"")
        .replace("path = \"pairs.jsonl\"", "path = \"${DATA}/pairs.jsonl\"\nmax_prompt_length = 0")
        .replace("\"55%\"", "\"55 apples\"")
        .replace("kind = \"generate\"", "kind = \"generat\"")
        .replace("model = \"base\"\ndata", "model = 7\ndata");
    insta::assert_snapshot!(show(parse("test.toml", &text, &[])));
}

#[test]
fn e68_unknown_stages() {
    insta::assert_snapshot!(with("requires = [\"reward\"]", "requires = [\"reward\", \"rewrad\"]"));
}

#[test]
fn stages_of_the_wrong_kind() {
    insta::assert_snapshot!(with("kind = \"ppo\"\nmodel = \"sft\"", "kind = \"ppo\"\nmodel = \"base\""));
}

#[test]
fn e63_cycles_print_every_edge() {
    insta::assert_snapshot!(with("kind = \"pretrain\"", "kind = \"pretrain\"\nrequires = [\"judge\"]"));
}

#[test]
fn splits_must_be_made() {
    insta::assert_snapshot!(with("split = { sft = 6, ppo = 4 }", "split = { sft = 6, pppo = 4 }\neval = 0"));
}

#[test]
fn shapes_must_fit() {
    insta::assert_snapshot!(with(
        "path = \"text.jsonl\"",
        "path = \"text.jsonl\"\nhidden_size = 100\nnum_attention_heads = 3\nmax_position_embeddings = 420"
    ));
}

#[test]
fn a100_keys_that_nothing_reads() {
    insta::assert_snapshot!(with("completions = \"answers\"", "completions = \"answers\"\nmax_cost_usd = 3"));
    insta::assert_snapshot!(with("path = \"text.jsonl\"", "path = \"text.jsonl\"\nquestions = 3"));
}

#[test]
fn missing_keys_and_models() {
    insta::assert_snapshot!(with("completions = \"answers\"\nmodel = \"sft\"", "provider = \"openai\""));
    insta::assert_snapshot!(with("kind = \"hydra-sft\"\nmodel = \"base\"", "kind = \"hydra-sft\""));
    insta::assert_snapshot!(show(parse("empty.toml", "", &[])));
}

#[test]
fn syntax() {
    insta::assert_snapshot!(with("r = 8", "r = = 8"));
    insta::assert_snapshot!(with("r = 8", "r = 8\nr = 9"));
}

#[test]
fn e71_overrides_are_typed_by_the_schema() {
    let pipeline = good(&[
        "stages.ppo.kl_coef=0.5",
        "stages.sft.model=base",
        "pipeline.name=other one",
        "model.device=cpu",
    ]);
    let pipeline = pipeline.expect("no mistakes");
    assert_eq!(pipeline.pipeline.name, "other one");
    assert_eq!(pipeline.model.device, spec::Device::Cpu);
    let spec::StageConfig::Ppo(ppo) = &pipeline.stages[4].config else { panic!("a ppo") };
    assert_eq!(ppo.kl_coef, 0.5);
    insta::assert_snapshot!(show(good(&[
        "stages.ppo.kl_coef=true",
        "stages.ppo.train_value_head=yes",
        "stages.pppo.kl_coef=1",
        "pipeline.name=7",
        "seed",
        "seed=3",
        "stages.ppo.kl_cof=1",
    ])));
}

#[test]
fn mistakes_outside_the_file_point_into_it() {
    let pipeline = good(&["stages.base.path=nowhere.jsonl"]).expect("no mistakes");
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_width(110);
    let mut text = String::new();
    for key in ["stages.data.path", "stages.base.path", "stages.ppo.split"] {
        let mistake = pipeline.mistake(key, "E0118", format!("`{key}` is not there"), "look again");
        handler.render_report(&mut text, &mistake).expect("a report");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn a_stage_has_a_place_of_its_own_wherever_executor_stands() {
    let executor = "[executor]\nkind = \"slurm\"\npartition = \"cpu\"\ntime = \"1h\"\n";
    let own = "[stages.ppo.executor]\npartition = \"gpu\"\ngres = \"gpu:a100:1\"\nmem = \"40 GB\"\n";
    for text in [format!("{GOOD}\n{executor}{own}"), format!("{executor}{GOOD}\n{own}")] {
        let executor = parse("test.toml", &text, &[]).expect("it is right").executor;
        let (ppo, sft) = (executor.place("ppo"), executor.place("sft"));
        assert_eq!((ppo.partition.as_str(), ppo.time, ppo.mem), ("gpu", Some(3600.0), Some(40_000_000_000)));
        assert_eq!((sft.partition.as_str(), sft.gres.as_str(), sft.mem), ("cpu", "", None));
        let text = serde_json::to_string(&executor).expect("JSON");
        assert_eq!(serde_json::from_str::<spec::Executor>(&text).expect("the same"), executor);
    }
}

#[test]
fn e66_what_a_job_cannot_ask_for_is_said_with_its_place() {
    let text = format!(
        "{GOOD}\n[executor]\nmem = \"4 GB\"\nsbatch_args = [\"--output=x\", \"night\", \"-J name\"]\n\
         [stages.ppo.executor]\npartitoin = \"gpu\"\nmem_per_gpu = \"4 GB\"\nexport = [\"KEY=secret\"]\n"
    );
    let errors = parse("test.toml", &text, &[]).expect_err("mistakes");
    let mut messages: Vec<String> = errors.mistakes.iter().map(|m| m.problem.to_string()).collect();
    messages.sort();
    let expected = [
        "`KEY=secret` is not the name of an environment variable",
        "`night` is not an argument of sbatch",
        "a job cannot ask for both `mem` and `mem_per_gpu`",
        "the engine itself gives `--output` to sbatch",
        "the engine itself gives `-J name` to sbatch",
        "unknown key `partitoin` in [stages.ppo.executor]",
    ];
    // What the stage inherits is said for it as well.
    messages.dedup();
    assert_eq!(messages, expected);
}
