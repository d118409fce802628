//! Every key of the schema that is result-affecting changes the fingerprint, and no other one does.

mod common;

use std::path::PathBuf;

use common::{Files, differing, parse, plan};
use plan::{Plan, changes};
use serde_json::Value;
use spec::{Effect, Pipeline, Section, StageConfig};

/// A stage of every kind.
const ALL: &str = r#"
[pipeline]
name = "t"
[stages.pretrain]
kind = "pretrain"
path = "text.jsonl"
[stages.prepare]
kind = "prepare"
path = "pairs.jsonl"
model = "pretrain"
[stages.sft]
kind = "sft"
model = "pretrain"
data = "prepare"
[stages.reward]
kind = "reward"
model = "pretrain"
data = "prepare"
[stages.hydra-sft]
kind = "hydra-sft"
model = "pretrain"
data = "prepare"
[stages.reward-eval]
kind = "reward-eval"
model = "hydra-sft"
data = "prepare"
[stages.ppo]
kind = "ppo"
model = "hydra-sft"
data = "prepare"
requires = ["reward-eval"]
[stages.generate]
kind = "generate"
models = ["hydra-sft", "ppo"]
data = "prepare"
[stages.judge]
kind = "judge"
completions = "generate"
model = "reward"
[stages.rouge]
kind = "rouge"
completions = "generate"
[stages.report]
kind = "report"
"#;

/// Some other value of the same type.
fn other(key: &spec::Key, value: &Value) -> Value {
    match (key.ty, value) {
        (spec::Type::Choice(choices), Value::String(word)) => choices
            .iter()
            .find(|choice| choice.name != word)
            .map_or(value.clone(), |choice| choice.name.into()),
        (_, Value::Bool(flag)) => (!flag).into(),
        (_, Value::String(text)) => format!("{text}x").into(),
        (_, Value::Number(number)) if number.is_u64() => (number.as_u64().unwrap_or(0) + 1).into(),
        (_, Value::Number(number)) if number.is_i64() => (number.as_i64().unwrap_or(0) + 2).into(),
        (_, Value::Number(number)) => (number.as_f64().unwrap_or(0.0) * 0.5 + 0.25).into(),
        (_, Value::Object(map)) => {
            let mut map = map.clone();
            map.insert("more".into(), 1.0.into());
            map.into()
        }
        (_, value) => panic!("no other value than {value}"),
    }
}

fn with_key(pipeline: &Pipeline, index: usize, key: &str, value: Value) -> Pipeline {
    let mut changed = pipeline.clone();
    let mut json = serde_json::to_value(&changed.stages[index].config).expect("JSON");
    json[key] = value;
    changed.stages[index].config = serde_json::from_value(json).expect("a config");
    changed
}

#[test]
fn e51_e59_every_key_of_the_schema_has_the_effect_it_declares() {
    let pipeline = parse(ALL);
    let before = plan(&pipeline);
    let mut walked = 0;
    for (index, stage) in pipeline.stages.iter().enumerate() {
        let mut keys = Vec::new();
        stage.config.section().each(&mut |key, value| keys.push((key.clone(), value.to_json())));
        for (key, value) in keys {
            // Names of stages have their own tests.
            if key.rule.stages.is_some() || (stage.name == "judge" && key.name == "model") {
                continue;
            }
            let changed = plan(&with_key(&pipeline, index, key.name, other(&key, &value)));
            let differs = differing(&before, &changed).contains(&stage.name);
            let expected = key.rule.effect == Effect::Result;
            assert_eq!(differs, expected, "{}.{}", stage.name, key.name);
            walked += 1;
        }
    }
    assert!(walked > 100, "{walked} keys");
}

#[test]
fn e59_executor_device_and_retries_are_no_part() {
    let pipeline = parse(ALL);
    let text = ALL
        .replace("name = \"t\"", "name = \"other\"\n[executor]\ncpus = 3\n[model]\ndevice = \"cuda:1\"")
        .replace("kind = \"sft\"", "kind = \"sft\"\nmax_retries = 4");
    assert!(differing(&plan(&pipeline), &plan(&parse(&text))).is_empty());
    let dropped = ALL.replace("requires = [\"reward-eval\"]\n", "");
    assert!(differing(&plan(&pipeline), &plan(&parse(&dropped))).is_empty(), "a gate changes no result");
}

#[test]
fn e59_where_a_stage_runs_is_no_part() {
    let place = "kind = \"slurm\"\npartition = \"p\"\ntime = \"1h\"\nmem = \"4 GB\"\ngpus = \"2\"\n";
    let text = format!("{ALL}\n[executor]\n{place}[stages.ppo.executor]\n{place}");
    assert!(differing(&plan(&parse(ALL)), &plan(&parse(&text))).is_empty());
    spec::Executor::default()
        .each(&mut |key, _| assert_eq!(key.rule.effect, Effect::Execution, "{}", key.name));
}

#[test]
fn lora_reaches_ppo_and_what_is_below() {
    let text = ALL.replace("name = \"t\"", "name = \"t\"\n[lora]\nr = 4");
    let differs = differing(&plan(&parse(ALL)), &plan(&parse(&text)));
    assert_eq!(differs.into_iter().collect::<Vec<_>>(), ["generate", "judge", "ppo", "report", "rouge"]);
}

#[test]
fn seeds_reach_what_draws_at_random_only() {
    let own = ALL.replace("kind = \"ppo\"", "kind = \"ppo\"\nseed = 5");
    let (before, after) = (plan(&parse(ALL)), plan(&parse(&own)));
    assert_eq!(after.stage("ppo").map(|stage| stage.seed), Some(5));
    assert_eq!(differing(&before, &after).len(), 5);
    let fixed = ALL.replace("kind = \"rouge\"", "kind = \"rouge\"\nseed = 5");
    assert!(differing(&before, &plan(&parse(&fixed))).is_empty());
}

#[test]
fn names_of_unrelated_stages_are_no_part() {
    let without_reports = ALL.replace("[stages.report]\nkind = \"report\"\n", "");
    let renamed = without_reports.replace("[stages.rouge]", "[stages.overlap]");
    let differs = differing(&plan(&parse(&renamed)), &plan(&parse(&without_reports)));
    assert_eq!(differs.into_iter().collect::<Vec<_>>(), ["overlap"]);
}

#[test]
fn e53_content_of_files_counts() {
    let pipeline = parse(ALL);
    let mut files = Files::default();
    files.0.insert(PathBuf::from("pairs.jsonl"), "other content".into());
    let (before, after) = (plan(&pipeline), Plan::new(&pipeline, &mut files).expect("a plan"));
    let differs = differing(&before, &after);
    assert!(differs.contains("prepare") && differs.contains("ppo") && !differs.contains("pretrain"));
    let (old, new) = (before.stage("prepare").expect("it"), after.stage("prepare").expect("it"));
    let shown: Vec<_> = changes(&old.parts, &new.parts).iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["file.pairs.jsonl: content of pairs.jsonl → other content"]);
}

#[test]
fn a_base_model_counts_by_the_files_that_are_read() {
    for (base, weights) in [
        ("tiny", &[][..]),
        ("one-file", &["model.safetensors"]),
        ("shards", &["a.safetensors", "b.safetensors", "model.safetensors.index.json"]),
    ] {
        let text = format!(
            "[pipeline]\nname = \"t\"\n[model]\nbase = \"models/{base}\"\n\
             [stages.d]\nkind = \"prepare\"\npath = \"p.jsonl\"\n"
        );
        let plan = plan(&parse(&text));
        assert_eq!(plan.stages[0].base_model, format!("models/{base}"));
        let parts = plan.stages[0].parts.iter().filter_map(|(part, _)| part.strip_prefix("file."));
        let mut expected: Vec<_> = ["config.json", "tokenizer.json"].iter().chain(weights).collect();
        expected.sort();
        let expected: Vec<_> = expected.into_iter().map(|name| format!("models/{base}/{name}")).collect();
        assert_eq!(parts.collect::<Vec<_>>(), [&expected[..], &["p.jsonl".to_owned()]].concat());
    }
}

/// Fingerprints of earlier versions stay valid: a change here makes everyone's results run again. If that is
/// meant, say so in CHANGELOG.md.
#[test]
fn e52_fingerprints_are_stable_across_releases() {
    let text = "[pipeline]\nname = \"t\"\n[stages.report]\nkind = \"report\"\n";
    let plan = plan(&parse(text));
    let report = &plan.stages[0];
    let parts: Vec<_> = report.parts.iter().collect();
    assert_eq!(parts, [("config.stages", "[]"), ("format", "report/1")]);
    assert_eq!(report.seed, 12_968_515_573_040_610_926);
    assert_eq!(report.fingerprint.short(), "731642254f2796ac");
}

#[test]
fn plans_survive_json() {
    let plan = plan(&parse(ALL));
    let text = serde_json::to_string(&plan).expect("JSON");
    assert_eq!(serde_json::from_str::<Plan>(&text).expect("a plan"), plan);
    assert!(plan.stages.iter().all(|stage| StageConfig::of_kind(&stage.kind).is_some()));
}

#[test]
fn graphs_for_other_tools() {
    let text = "[pipeline]\nname = \"t\"\n[stages.base]\nkind = \"pretrain\"\nformat = \"synthetic-qa\"\n\
                [stages.d]\nkind = \"prepare\"\npath = \"p.jsonl\"\nmodel = \"base\"\nrequires = [\"e\"]\n\
                [stages.e]\nkind = \"report\"\nstages = [\"base\"]\n";
    let plan = plan(&parse(text));
    assert_eq!(
        plan::mermaid(&plan),
        "flowchart TD\n    s0[\"base<br><i>pretrain</i>\"]\n    s1[\"e<br><i>report</i>\"]\n    \
         s2[\"d<br><i>prepare</i>\"]\n    s0 --> s1\n    s0 --> s2\n    s1 -.-> s2\n"
    );
    assert_eq!(
        plan::dot(&plan),
        "digraph \"t\" {\n    node [shape=box];\n    \"base\" [label=\"base\\npretrain\"];\n    \
         \"e\" [label=\"e\\nreport\"];\n    \"d\" [label=\"d\\nprepare\"];\n    \"base\" -> \"e\";\n    \
         \"base\" -> \"d\";\n    \"e\" -> \"d\" [style=dashed];\n}\n"
    );
}
