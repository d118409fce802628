//! The dependency arrows of ARCHITECTURE.md, held against `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

/// Crate → the workspace crates it may use (dev-dependencies aside).
const ALLOWED: &[(&str, &[&str])] = &[
    ("spec", &[]),
    ("plan", &["spec"]),
    ("store", &["spec", "plan"]),
    ("engine", &["spec", "plan", "store"]),
    ("data", &["spec"]),
    ("model", &["spec"]),
    ("train", &["spec", "data", "model"]),
    ("eval", &["spec", "data"]),
    ("report", &["spec", "store", "eval"]),
    ("stages", &["spec", "plan", "engine", "store", "data", "model", "train", "eval", "report"]),
    ("cpu", &["stages"]),
    ("cuda", &["stages", "model"]),
    ("cli", &["spec", "plan", "store", "engine", "data", "eval", "report", "stages", "cpu", "cuda"]),
    ("testkit", &["data"]),
    ("xtask", &[]),
    ("e2e", &[]),
];

#[test]
fn workspace_dependencies_follow_the_arrows() {
    let metadata = cargo_metadata::MetadataCommand::new().no_deps().exec().expect("cargo metadata runs");
    let members: BTreeSet<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();

    let mut broken = Vec::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        let Some(may_use) = allowed.get(name) else {
            broken.push(format!("crate `{name}` is not in the table of arrows"));
            continue;
        };
        for dependency in &package.dependencies {
            let is_dev = dependency.kind == cargo_metadata::DependencyKind::Development;
            let target = dependency.name.as_str();
            if !is_dev && members.contains(target) && !may_use.contains(&target) {
                broken.push(format!("`{name}` must not depend on `{target}`"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// The concrete tensor backend is named by the two backend crates and by tests, by nobody else.
#[test]
fn only_the_backend_crates_name_a_backend() {
    let root =
        cargo_metadata::MetadataCommand::new().no_deps().exec().expect("cargo metadata runs").workspace_root;
    for name in ["stages", "train", "cli", "engine"] {
        for file in sources(root.join("crates").join(name).join("src").as_std_path()) {
            let text = std::fs::read_to_string(&file).expect("source file reads");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            assert!(
                !code.contains("backend::Flex") && !code.contains("backend::Cuda"),
                "{} names a concrete backend",
                file.display()
            );
        }
    }
}

fn sources(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("source folder reads") {
        let path = entry.expect("entry reads").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
