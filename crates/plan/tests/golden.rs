//! Fingerprints of the pipelines that come with the program are the same in every release: results made by
//! an earlier one stay valid.
//!
//! A change here makes everyone's stages run again. Where that is meant, raise `format_version` of the kind,
//! say so in CHANGELOG.md. Then, or when a pipeline file was edited, write the new list with `PIPELINE_UPDATE_DOCS=1 cargo test -p plan`.

mod common;

use std::path::Path;

use common::{parse, plan};

#[test]
fn e52_e62_keys_of_committed_pipelines_are_stable() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("../../pipelines");
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).expect("pipelines").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let mut keys = String::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|own| own == "toml")) {
        let text = std::fs::read_to_string(file).expect("it reads");
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        for stage in plan(&parse(&text)).stages {
            keys += &format!("{name} {} {}\n", stage.name, stage.fingerprint);
        }
    }
    let path = root.join("tests/golden-keys.txt");
    if std::env::var_os("PIPELINE_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &keys).expect("the list can be written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let changed: Vec<&str> = golden.lines().filter(|line| !keys.lines().any(|now| now == *line)).collect();
    assert!(
        changed.is_empty(),
        "these keys have changed, see the head of this file:\n{}",
        changed.join("\n")
    );
    assert!(keys.lines().count() > 10);
    assert_eq!(golden.lines().count(), keys.lines().count(), "add the new stages to the list");
}

#[test]
fn e56_e103_keys_follow_from_the_file_alone_and_a_plan_grows_with_its_stages() {
    let chain = |length: usize| {
        let mut text =
            "[pipeline]\nname = \"t\"\n[stages.s0]\nkind = \"pretrain\"\npath = \"t.jsonl\"\n".to_owned();
        for n in 1..length {
            let before = n - 1;
            text +=
                &format!("[stages.s{n}]\nkind = \"pretrain\"\npath = \"t.jsonl\"\nmodel = \"s{before}\"\n");
        }
        plan(&parse(&text))
    };
    let (short, long) = (chain(100), chain(1000));
    assert_eq!(short.stages[..], long.stages[..100], "what comes later changes nothing");
    let size = |plan: &plan::Plan| serde_json::to_string(plan).expect("JSON").len();
    assert!(
        size(&long) < 12 * size(&short),
        "{} bytes for 100 stages, {} for 1000",
        size(&short),
        size(&long)
    );
}
