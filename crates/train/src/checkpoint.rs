//! What a checkpoint of any trainer holds: `state.json` and `tensors.safetensors`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use burn::tensor::{Tensor, TensorData};
use model::{HydraBackend, Parameters};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use spec::{Effect, Section};

use crate::TrainError;

const STATE: &str = "state.json";
const TENSORS: &str = "tensors.safetensors";

/// What a checkpoint must have in common with the run that loads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Which trainer wrote it.
    pub trainer: String,
    /// BLAKE3 over the result-affecting keys of the stage.
    pub config: String,
    /// BLAKE3 over the rows, as token ids.
    pub data: String,
    /// BLAKE3 over the parameters that training started from.
    pub model: String,
    /// The seed.
    pub seed: u64,
}

impl Identity {
    /// The identity of a run of `trainer` with the keys of `section` over `rows`.
    pub fn new<'a>(
        trainer: &str,
        section: &dyn Section,
        rows: impl Iterator<Item = &'a [u32]>,
        model: String,
        seed: u64,
    ) -> Self {
        let mut config = blake3::Hasher::new();
        section.each(&mut |key, value| {
            if key.rule.effect == Effect::Result {
                config.update(format!("{}={}\n", key.name, value.to_json()).as_bytes());
            }
        });
        let mut data = blake3::Hasher::new();
        for row in rows {
            data.update(&(row.len() as u64).to_le_bytes());
            for id in row {
                data.update(&id.to_le_bytes());
            }
        }
        let hex = |hasher: blake3::Hasher| hasher.finalize().to_hex().to_string();
        Self { trainer: trainer.into(), config: hex(config), data: hex(data), model, seed }
    }

    fn check(&self, saved: &Self, path: &Path) -> Result<(), TrainError> {
        let parts = [
            ("trainer", &saved.trainer, &self.trainer),
            ("config", &saved.config, &self.config),
            ("data", &saved.data, &self.data),
            ("model", &saved.model, &self.model),
            ("seed", &saved.seed.to_string(), &self.seed.to_string()),
        ];
        for (part, saved, current) in parts {
            if saved != current {
                let (saved, current) = (saved.clone(), current.clone());
                return Err(TrainError::CheckpointMismatch {
                    path: path.into(),
                    part: part.into(),
                    saved,
                    current,
                });
            }
        }
        Ok(())
    }
}

/// Everything a trainer needs to go on.
#[derive(Debug, Clone)]
pub struct Checkpoint<B: HydraBackend> {
    /// Finished steps (PPO: updates).
    pub step: u64,
    /// Numbers by name, such as `optimizer_step` or `kl_coef`.
    pub numbers: BTreeMap<String, f64>,
    /// Parameters and moments by name.
    pub tensors: BTreeMap<String, Tensor<B, 2>>,
}

#[derive(Serialize, Deserialize)]
struct State {
    identity: Identity,
    step: u64,
    numbers: BTreeMap<String, f64>,
    /// BLAKE3 over the tensors' file and everything above.
    hash: String,
}

impl State {
    /// What `hash` must be beside a tensors' file.
    fn expected(&self, tensors: &[u8]) -> Result<String, serde_json::Error> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(blake3::hash(tensors).as_bytes());
        hasher.update(&serde_json::to_vec(&(&self.identity, self.step, &self.numbers))?);
        Ok(hasher.finalize().to_hex().to_string())
    }
}

impl<B: HydraBackend> Checkpoint<B> {
    /// An empty one.
    pub fn new(step: u64) -> Self {
        Self { step, numbers: BTreeMap::new(), tensors: BTreeMap::new() }
    }

    /// Adds all parameters of a model, their names after `prefix`.
    pub fn put(&mut self, prefix: &str, params: &impl Parameters<B>) {
        params.visit(&mut |name, tensor| {
            self.tensors.insert(format!("{prefix}{name}"), tensor.clone());
        });
    }

    /// Adds tensors, their names after `prefix`.
    pub fn extend(&mut self, prefix: &str, tensors: BTreeMap<String, Tensor<B, 2>>) {
        self.tensors.extend(tensors.into_iter().map(|(name, tensor)| (format!("{prefix}{name}"), tensor)));
    }

    /// The tensors whose names begin with `prefix`, without it.
    pub fn take(&mut self, prefix: &str) -> BTreeMap<String, Tensor<B, 2>> {
        let names: Vec<String> =
            self.tensors.keys().filter(|name| name.starts_with(prefix)).cloned().collect();
        let entry = |name: String| Some((name[prefix.len()..].to_owned(), self.tensors.remove(&name)?));
        names.into_iter().filter_map(entry).collect()
    }

    /// A model with the parameters saved under `prefix`; all must be there in the same shape.
    pub fn model<P>(&mut self, prefix: &str, like: &P, path: &Path) -> Result<P, TrainError>
    where
        P: Parameters<B, On<B> = P>,
    {
        let mut problem = None;
        let model = like.map(&mut |name, tensor| match self.tensors.remove(&format!("{prefix}{name}")) {
            Some(saved) if saved.dims() == tensor.dims() => saved,
            other => {
                let found = other.map_or("missing".into(), |saved| format!("of shape {:?}", saved.dims()));
                problem.get_or_insert(format!("{prefix}{name} is {found}"));
                tensor.clone()
            }
        });
        match problem {
            None => Ok(model),
            Some(problem) => Err(TrainError::CheckpointDamaged { path: path.into(), problem }),
        }
    }

    /// A number that must be there.
    pub fn number(&self, name: &str, path: &Path) -> Result<f64, TrainError> {
        let problem = || TrainError::CheckpointDamaged { path: path.into(), problem: format!("no `{name}`") };
        self.numbers.get(name).copied().ok_or_else(problem)
    }

    /// Writes the checkpoint into an existing folder.
    pub fn write(&self, dir: &Path, identity: &Identity) -> Result<(), TrainError> {
        let path = dir.join(TENSORS);
        let bytes: Vec<(&String, Vec<usize>, Vec<u8>)> = self
            .tensors
            .iter()
            .map(|(name, tensor)| {
                let values = tensor.to_data().convert::<f32>();
                let bytes = values.iter::<f32>().flat_map(f32::to_le_bytes).collect();
                (name, tensor.dims().to_vec(), bytes)
            })
            .collect();
        let other = |error: safetensors::SafeTensorError| failed(&path)(std::io::Error::other(error));
        let views = bytes
            .iter()
            .map(|(name, shape, bytes)| Ok((*name, TensorView::new(Dtype::F32, shape.clone(), bytes)?)))
            .collect::<Result<Vec<_>, _>>()
            .map_err(other)?;
        let file = safetensors::serialize(views, None).map_err(other)?;
        let json = |error: serde_json::Error| failed(&dir.join(STATE))(error.into());
        let (identity, numbers) = (identity.clone(), self.numbers.clone());
        let mut state = State { identity, step: self.step, numbers, hash: String::new() };
        state.hash = state.expected(&file).map_err(json)?;
        fs::write(&path, file).map_err(failed(&path))?;
        let text = serde_json::to_vec_pretty(&state).map_err(json)?;
        fs::write(dir.join(STATE), text).map_err(failed(&dir.join(STATE)))
    }

    /// Reads the checkpoint in `dir`, if it belongs to this run.
    pub fn read(dir: &Path, identity: &Identity, device: &B::Device) -> Result<Self, TrainError> {
        let damaged = |problem: String| TrainError::CheckpointDamaged { path: dir.into(), problem };
        let read = |name: &str| fs::read(dir.join(name)).map_err(|error| damaged(format!("{name}: {error}")));
        let state: State =
            serde_json::from_slice(&read(STATE)?).map_err(|e| damaged(format!("{STATE}: {e}")))?;
        let file = read(TENSORS)?;
        if state.expected(&file).map_err(|e| damaged(format!("{STATE}: {e}")))? != state.hash {
            return Err(damaged(format!("{STATE} and {TENSORS} are not what was written")));
        }
        identity.check(&state.identity, dir)?;
        let saved = SafeTensors::deserialize(&file).map_err(|e| damaged(format!("{TENSORS}: {e}")))?;
        let mut tensors = BTreeMap::new();
        for (name, view) in saved.iter() {
            let &[rows, cols] = view.shape() else {
                return Err(damaged(format!("{name} has the shape {:?}", view.shape())));
            };
            let values: Vec<f32> =
                view.data().as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            let data = TensorData::new(values, [rows, cols]);
            tensors.insert(name.to_owned(), Tensor::from_data(data, device));
        }
        Ok(Self { step: state.step, numbers: state.numbers, tensors })
    }
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> TrainError {
    let path = path.to_path_buf();
    move |source| TrainError::Write { path, source }
}

#[cfg(test)]
mod tests {
    use burn::backend::Flex;
    use rand::Rng;
    use spec::stage::Sft;

    use super::*;

    #[test]
    fn a4_numbers_come_back_bit_for_bit() {
        let dir = tempfile::tempdir().expect("a folder");
        let identity = Identity::new("test", &Sft::default(), std::iter::empty(), String::new(), 1);
        let mut saved = Checkpoint::<Flex>::new(3);
        let mut rng = data::rng(1, &["numbers".into()]);
        for index in 0..20_000 {
            saved.numbers.insert(index.to_string(), rng.random_range(-10.0..10.0));
        }
        saved.write(dir.path(), &identity).expect("it writes");
        let read = Checkpoint::<Flex>::read(dir.path(), &identity, &Default::default()).expect("it reads");
        let bits =
            |numbers: &BTreeMap<String, f64>| -> Vec<u64> { numbers.values().map(|n| n.to_bits()).collect() };
        assert_eq!(bits(&read.numbers), bits(&saved.numbers));
    }
}
