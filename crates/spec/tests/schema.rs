//! Every key of the schema has a doc, survives JSON, and is read back from TOML; the reference page is up to date.

use std::path::Path;

use spec::stage::KINDS;
use spec::{StageConfig, schema};

#[test]
fn every_key_has_a_doc_and_a_default_in_range() {
    for table in schema().tables {
        let mut names = Vec::new();
        for key in table.keys {
            assert!(!key.doc.is_empty(), "{}.{}", table.name, key.name);
            assert!(!names.contains(&key.name), "{} has {} twice", table.name, key.name);
            names.push(key.name);
            for kind in key.stages.unwrap_or_default() {
                assert!(KINDS.iter().any(|(name, _)| *name == kind), "{kind} is a kind");
            }
        }
    }
}

#[test]
fn defaults_survive_json() {
    for (kind, _) in KINDS {
        let config = StageConfig::of_kind(kind).expect("a kind");
        assert_eq!(config.kind(), *kind);
        let json = serde_json::to_string(&config).expect("JSON");
        assert_eq!(serde_json::from_str::<StageConfig>(&json).expect(&json), config);
        let keys: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&json).expect("an object");
        assert_eq!(
            keys.len(),
            config.section().keys().len() + 1,
            "{kind}: struct and schema have the same keys"
        );
    }
}

#[test]
fn defaults_written_out_are_the_defaults() {
    for (kind, _) in KINDS {
        let config = StageConfig::of_kind(kind).expect("a kind");
        let mut text = format!("[pipeline]\nname = \"t\"\n[stages.it]\nkind = \"{kind}\"\n");
        config.section().each(&mut |key, value| {
            let json = value.to_json();
            let value = match json.as_object() {
                Some(map) => {
                    let pairs: Vec<_> = map.iter().map(|(name, share)| format!("{name} = {share}")).collect();
                    format!("{{ {} }}", pairs.join(", "))
                }
                None => json.to_string(),
            };
            text.push_str(&format!("{} = {value}\n", key.name));
        });
        let Err(errors) = spec::parse("t.toml", &text, &[]) else { continue };
        for mistake in errors.mistakes {
            // Values are fine one by one; what is missing or does not go together is another matter.
            let code = mistake.problem.code();
            assert!(["E0107", "E0108", "E0112", "E0113"].contains(&code), "{kind}: {mistake:?}");
        }
    }
}

#[test]
fn the_reference_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/pipeline-file.md");
    let page = schema().markdown();
    if std::env::var_os("PIPELINE_UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("docs/reference");
        std::fs::write(&path, &page).expect("the page");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "out of date: PIPELINE_UPDATE_DOCS=1 cargo test -p spec");
}

#[test]
fn every_code_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = std::fs::read_to_string(root.join("src/mistake.rs")).expect("the source");
    let page = std::fs::read_to_string(root.join("../../docs/errors/spec.md")).expect("the page");
    let codes: Vec<_> = source.split('"').filter(|text| text.len() == 5 && text.starts_with("E01")).collect();
    assert!(codes.len() > 15, "{codes:?}");
    for code in codes {
        assert!(page.contains(&format!("## {code}\n")), "{code} is not documented");
    }
}
