//! Safetensors files to and from named parameters.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use burn::tensor::{DType, Tensor, TensorData};
use safetensors::tensor::View;
use safetensors::{Dtype, SafeTensorError};
use serde::{Deserialize, Serialize};

use crate::backend::HydraBackend;
use crate::error::ModelError;
use crate::folder::Weights;
use crate::params::Parameters;
use crate::shard::Entry;

/// Whether a parameter is a vector on disk: the weights of norms are.
pub fn is_vector(name: &str) -> bool {
    name.ends_with("norm.weight")
}

fn shape_on_disk(name: &str, dims: [usize; 2]) -> Vec<usize> {
    if is_vector(name) { vec![dims[1]] } else { dims.to_vec() }
}

/// Values as little-endian f32, row by row.
pub fn le_bytes<B: HydraBackend>(tensor: &Tensor<B, 2>) -> Vec<u8> {
    let data = tensor.to_data().convert_dtype(DType::F32);
    if cfg!(target_endian = "little") {
        return data.as_bytes().to_vec();
    }
    data.iter::<f32>().flat_map(f32::to_le_bytes).collect()
}

/// A parameter that is turned into bytes when its turn to be written comes.
struct Lazy<'a, B: HydraBackend> {
    tensor: &'a Tensor<B, 2>,
    shape: Vec<usize>,
}

impl<B: HydraBackend> View for Lazy<'_, B> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        le_bytes(self.tensor).into()
    }

    fn data_len(&self) -> usize {
        self.shape.iter().product::<usize>() * size_of::<f32>()
    }
}

/// Writes all parameters as f32 to one file, one after the other. The same parameters give the same bytes.
pub fn save<B: HydraBackend, P: Parameters<B>>(path: &Path, params: &P) -> Result<(), ModelError> {
    let mut tensors = Vec::new();
    params.visit(&mut |name, tensor| {
        let shape = shape_on_disk(name, tensor.dims());
        tensors.push((name.to_owned(), Lazy { tensor, shape }));
    });
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::serialize_to_file(tensors, Some(metadata), path).map_err(|error| match error {
        SafeTensorError::IoError(source) => {
            ModelError::File { action: "write", path: path.to_owned(), source }
        }
        other => ModelError::Safetensors { path: path.to_owned(), problem: other.to_string() },
    })
}

/// Reads the parameters of `skeleton` from one file. Every tensor that is missing, unknown (unless
/// `ignore` says so) or misshapen is listed in one error.
pub fn load<B: HydraBackend, P: Parameters<B>>(
    path: &Path,
    skeleton: &P,
    device: &B::Device,
    ignore: impl Fn(&str) -> bool,
) -> Result<P::On<B>, ModelError> {
    fill(Weights::open(path)?, skeleton, device, ignore)
}

/// Reads `model.safetensors`, or the shards that `model.safetensors.index.json` lists.
pub fn load_folder<B: HydraBackend, P: Parameters<B>>(
    folder: &Path,
    skeleton: &P,
    device: &B::Device,
    ignore: impl Fn(&str) -> bool,
) -> Result<P::On<B>, ModelError> {
    fill(Weights::open_folder(folder)?, skeleton, device, ignore)
}

/// Reads one tensor after the other once all are known to fit; beside the model there is never more in
/// memory than a few small buffers.
fn fill<B: HydraBackend, P: Parameters<B>>(
    weights: Weights,
    skeleton: &P,
    device: &B::Device,
    ignore: impl Fn(&str) -> bool,
) -> Result<P::On<B>, ModelError> {
    let mut wanted = BTreeMap::new();
    skeleton.visit(&mut |name, tensor| {
        wanted.insert(name.to_owned(), tensor.dims());
    });
    let Weights { path, shards, mut problems } = weights;
    let mut places = HashMap::new();
    for (shard, name, entry) in shards.iter().flat_map(|s| s.entries.iter().map(move |(n, e)| (s, n, e))) {
        // Old checkpoints carry this table; it follows from the configuration.
        if ignore(name) || name.ends_with("rotary_emb.inv_freq") {
            continue;
        }
        match wanted.remove(name) {
            None => problems.push(format!("unexpected: {name} {:?}", entry.shape)),
            Some(dims) => problems.extend(misfit(name, entry, dims)),
        }
        places.insert(name.as_str(), (shard, entry));
    }
    problems.extend(
        wanted.iter().map(|(name, dims)| format!("missing: {name} {:?}", shape_on_disk(name, *dims))),
    );
    if !problems.is_empty() {
        problems.sort();
        return Err(ModelError::Tensors { path, problems });
    }
    let mut failure = None;
    // Every name is there: whatever was not found is in `problems`.
    let filled = skeleton.map(&mut |name, tensor| match places.get(name) {
        Some((shard, entry)) if failure.is_none() => match shard.values(entry) {
            Ok(values) => Tensor::from_data(TensorData::new(values, tensor.dims()), device),
            Err(source) => {
                failure = Some(ModelError::File { action: "read", path: shard.path.clone(), source });
                tensor.clone()
            }
        },
        _ => tensor.clone(),
    });
    failure.map_or(Ok(filled), Err)
}

fn misfit(name: &str, entry: &Entry, dims: [usize; 2]) -> Option<String> {
    let shape = shape_on_disk(name, dims);
    if entry.shape != shape {
        return Some(format!("misshapen: {name} is {:?}, expected {shape:?}", entry.shape));
    }
    (!entry.is_float()).then(|| format!("unsupported type: {name} is {}", entry.dtype))
}

pub fn read(path: &Path) -> Result<Vec<u8>, ModelError> {
    fs::read(path).map_err(|source| ModelError::File { action: "read", path: path.to_owned(), source })
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), ModelError> {
    fs::write(path, bytes).map_err(|source| ModelError::File {
        action: "write",
        path: path.to_owned(),
        source,
    })
}

pub fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, ModelError> {
    serde_json::from_slice(&read(path)?).map_err(|source| ModelError::Json { path: path.to_owned(), source })
}

pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), ModelError> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|source| ModelError::Json { path: path.to_owned(), source })?;
    text.push(b'\n');
    write(path, &text)
}
