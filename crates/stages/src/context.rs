//! What a stage is given: its request, the results of its ancestors, a device, a folder to write into.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use data::{Pair, PreparedData, Prompt, Tokenizer};
use engine::protocol::{Input, ManifestFile, Request, file};
use model::HydraBackend;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::StageError;
use crate::recorder::Recorder;

/// Everything a stage needs besides its own configuration.
pub struct Context<'a, B: HydraBackend> {
    pub request: &'a Request,
    pub device: &'a B::Device,
    /// `out/` of the attempt; becomes the artifact.
    pub out: &'a Path,
    pub recorder: &'a mut Recorder,
    /// Inputs whose content has been checked.
    pub intact: RefCell<BTreeSet<String>>,
}

/// What is read of the manifest in an artifact.
#[derive(Deserialize)]
struct Sealed {
    files: Vec<ManifestFile>,
}

/// How a stage ended when it did not fail.
pub type Ending = train::Outcome<serde_json::Value>;

/// Turns a trainer's result into files and a summary.
pub fn finish<T>(
    outcome: train::Outcome<T>,
    write: impl FnOnce(T) -> Result<serde_json::Value, StageError>,
) -> Result<Ending, StageError> {
    match outcome {
        train::Outcome::Finished(result) => write(result).map(train::Outcome::Finished),
        train::Outcome::Interrupted { step } => Ok(train::Outcome::Interrupted { step }),
    }
}

impl<B: HydraBackend> Context<'_, B> {
    /// The seed of everything random in the stage.
    pub fn seed(&self) -> u64 {
        self.request.stage.seed
    }

    /// The result of another stage. Its content is held against its manifest before it is first used, so
    /// that nothing is made from what has changed since.
    pub fn input(&self, stage: &str) -> Result<&Input, StageError> {
        let input = self.request.inputs.get(stage).ok_or_else(|| StageError::Request {
            problem: format!("it has no input `{stage}` for stage `{}`", self.request.stage.name),
        })?;
        if !self.intact.borrow().contains(stage) {
            check_content(&input.path)?;
            self.intact.borrow_mut().insert(stage.to_owned());
        }
        Ok(input)
    }

    pub fn prepared(&self, stage: &str) -> Result<PreparedData, StageError> {
        Ok(PreparedData::open(&self.input(stage)?.path)?)
    }

    /// The pairs of a split; at least one. `tokenizer` is that of the model which will read them.
    pub fn pairs(&self, data: &str, split: &str, tokenizer: &Tokenizer) -> Result<Vec<Pair>, StageError> {
        let prepared = self.prepared(data)?;
        self.same_tokenizer(data, &prepared, tokenizer)?;
        let pairs = prepared.pairs(split)?;
        if pairs.is_empty() {
            return Err(StageError::EmptySplit { data: data.into(), split: split.into(), what: "pairs" });
        }
        Ok(pairs)
    }

    /// The prompts of a split; at least one. `tokenizer` is that of the model which will read them.
    pub fn prompts(&self, data: &str, split: &str, tokenizer: &Tokenizer) -> Result<Vec<Prompt>, StageError> {
        let prepared = self.prepared(data)?;
        self.same_tokenizer(data, &prepared, tokenizer)?;
        let prompts = prepared.prompts(split)?;
        if prompts.is_empty() {
            return Err(StageError::EmptySplit { data: data.into(), split: split.into(), what: "prompts" });
        }
        Ok(prompts)
    }

    fn same_tokenizer(
        &self,
        data: &str,
        prepared: &PreparedData,
        tokenizer: &Tokenizer,
    ) -> Result<(), StageError> {
        if prepared.card().tokenizer == tokenizer.hash() {
            return Ok(());
        }
        Err(StageError::TokenizerMismatch { stage: self.request.stage.name.clone(), data: data.into() })
    }

    /// A JSON-lines file of another stage's result.
    pub fn rows<T: DeserializeOwned>(&self, stage: &str, name: &str) -> Result<Vec<T>, StageError> {
        let path = self.input(stage)?.path.join(name);
        let text = std::fs::read_to_string(&path).map_err(StageError::file("read", &path))?;
        let parse = |line: &str| serde_json::from_str(line);
        text.lines()
            .map(parse)
            .collect::<Result<_, _>>()
            .map_err(|error| StageError::Artifact { path, problem: error.to_string() })
    }

    /// A path in the result.
    pub fn out(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }
}

/// Every file of an artifact has the hash that its manifest says.
fn check_content(artifact: &Path) -> Result<(), StageError> {
    let damaged = |path: &Path, problem: String| StageError::Artifact { path: path.into(), problem };
    let path = artifact.join(file::MANIFEST);
    let text = std::fs::read(&path).map_err(|error| damaged(&path, error.to_string()))?;
    let sealed: Sealed = serde_json::from_slice(&text).map_err(|error| damaged(&path, error.to_string()))?;
    store::files::check_content(artifact, &sealed.files)
        .map_err(|error| damaged(artifact, format!("it has changed since it was made: {error}")))
}
