//! The whole chain on a real Stack Exchange dump, in a test-sized setting.

use e2e::{expect, repository, settings};
use testkit::Project;

const SMALL: &[&str] = &[
    "stages.base.hidden_size=32",
    "stages.base.intermediate_size=64",
    "stages.base.num_hidden_layers=2",
    "stages.base.max_length=96",
    "stages.base.per_device_train_batch_size=8",
    "stages.base.max_steps=10",
    "stages.data.eval=12",
    "stages.data.max_prompt_length=120",
    "stages.data.max_response_length=120",
    "stages.sft.max_steps=6",
    "stages.ppo.total_episodes=16",
    "stages.ppo.batch_size=8",
    "stages.ppo.response_length=24",
    "stages.answers.max_new_tokens=24",
];

#[test]
fn a_real_dump_goes_through_every_stage() {
    let Some(dump) = testkit::shared_data("stackexchange/beer-Posts.xml") else { return };
    let project = Project::new();
    let file = repository().join("pipelines/stackexchange.toml");
    let path = dump.to_str().expect("the path is UTF-8");
    let paths = [format!("stages.base.path={path}"), format!("stages.data.path={path}")];
    let mut arguments = vec!["run", file.to_str().expect("the path is UTF-8")];
    arguments.extend(settings(SMALL));
    arguments.extend(paths.iter().flat_map(|pair| ["--set", pair]));
    expect(project.root(), &arguments, 0);

    let card = artifact(&project, "prepare", "card.json");
    assert_eq!(card["questions_read"], 663);
    assert_eq!(card["answers_read"], 1572);
    let eval = artifact(&project, "reward-eval", "summary.json");
    assert!(eval["n"].as_u64().is_some_and(|pairs| pairs > 0));
    let ppo = artifact(&project, "ppo", "summary.json");
    assert_eq!(ppo["updates"], 2);
    for name in ["reward_last", "kl_last"] {
        assert!(ppo[name].is_f64(), "{name} was measured");
    }
    let judge = artifact(&project, "judge", "summary.json");
    assert_eq!(judge["coverage"], 1.0);
}

/// A JSON file in the result of the only stage of a kind.
fn artifact(project: &Project, kind: &str, name: &str) -> serde_json::Value {
    let folder = std::fs::read_dir(project.path(".pipeline/artifacts"))
        .expect("there are artifacts")
        .flatten()
        .map(|entry| entry.path())
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.rsplit_once('-').is_some_and(|(found, _)| found == kind)
        });
    let path = folder.unwrap_or_else(|| panic!("a {kind} stage has a result")).join(name);
    serde_json::from_str(&std::fs::read_to_string(path).expect("it reads")).expect("it is JSON")
}
