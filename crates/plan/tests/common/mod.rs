//! Files and a past that live in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use plan::{Artifact, FileHasher, Fingerprint, Parts, Past, Plan};
use spec::Pipeline;

/// Every file exists; its content is its name, or what the test says.
#[derive(Default)]
pub struct Files(pub BTreeMap<PathBuf, String>);

impl FileHasher for Files {
    fn hash(&mut self, path: &Path) -> io::Result<String> {
        Ok(self.0.get(path).cloned().unwrap_or_else(|| format!("content of {}", path.display())))
    }

    fn list(&mut self, path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
        let folder = path.extension().is_none();
        let mut names = vec!["config.json", "notes.txt", "tokenizer.json"];
        if path.ends_with("one-file") || path.ends_with("shards") {
            names.extend([
                "model.safetensors.index.json",
                "a.safetensors",
                "b.safetensors",
                "old/c.safetensors",
            ]);
        }
        if path.ends_with("one-file") {
            names.push("model.safetensors");
        }
        Ok(folder.then(|| names.into_iter().map(PathBuf::from).collect()))
    }
}

/// Remembers successes.
#[allow(dead_code)]
#[derive(Default)]
pub struct Memory {
    pub artifacts: BTreeMap<Fingerprint, Artifact>,
    pub parts: BTreeMap<String, Parts>,
}

impl Memory {
    /// Everything in the plan succeeded.
    #[allow(dead_code)]
    pub fn after(plan: &Plan) -> Self {
        Self {
            artifacts: plan
                .stages
                .iter()
                .map(|stage| (stage.fingerprint.clone(), Artifact::Present))
                .collect(),
            parts: plan.stages.iter().map(|stage| (stage.name.clone(), stage.parts.clone())).collect(),
        }
    }
}

impl Past for Memory {
    fn artifact(&self, _: &str, fingerprint: &Fingerprint) -> Artifact {
        self.artifacts.get(fingerprint).cloned().unwrap_or(Artifact::Unknown)
    }

    fn last_parts(&self, stage: &str) -> Option<Parts> {
        self.parts.get(stage).cloned()
    }
}

pub fn parse(text: &str) -> Pipeline {
    spec::parse("t.toml", text, &[]).unwrap_or_else(|errors| panic!("{:?}", errors.mistakes))
}

pub fn plan(pipeline: &Pipeline) -> Plan {
    Plan::new(pipeline, &mut Files::default()).expect("a plan")
}

/// Names of the stages whose fingerprints differ.
#[allow(dead_code)]
pub fn differing(a: &Plan, b: &Plan) -> BTreeSet<String> {
    let other = |name: &str| b.stage(name).map(|stage| stage.fingerprint.clone());
    let differs = a.stages.iter().filter(|stage| other(&stage.name).as_ref() != Some(&stage.fingerprint));
    differs.map(|stage| stage.name.clone()).collect()
}
