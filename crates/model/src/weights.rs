//! Safetensors files to and from named parameters.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::{DType, Tensor, TensorData, bf16, f16};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

use crate::backend::HydraBackend;
use crate::error::ModelError;
use crate::params::Parameters;

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
    data.iter::<f32>().flat_map(f32::to_le_bytes).collect()
}

/// Writes all parameters as f32 to one file. The same parameters give the same bytes.
pub fn save<B: HydraBackend, P: Parameters<B>>(path: &Path, params: &P) -> Result<(), ModelError> {
    let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
    params.visit(&mut |name, tensor| {
        let shape = shape_on_disk(name, tensor.dims());
        tensors.push((name.to_owned(), shape, le_bytes(tensor)));
    });
    let invalid = |source| ModelError::Safetensors { path: path.to_owned(), source };
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| Ok((name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes)?)))
        .collect::<Result<Vec<_>, _>>()
        .map_err(invalid)?;
    let metadata = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let bytes = safetensors::serialize(views, Some(metadata)).map_err(invalid)?;
    write(path, &bytes)
}

/// Reads the parameters of `skeleton` from one file. Every tensor that is missing, unknown (unless
/// `ignore` says so) or misshapen is listed in one error.
pub fn load<B: HydraBackend, P: Parameters<B>>(
    path: &Path,
    skeleton: &P,
    device: &B::Device,
    ignore: impl Fn(&str) -> bool,
) -> Result<P::On<B>, ModelError> {
    load_files(path, &[path.to_owned()], skeleton, device, ignore)
}

/// Reads `model.safetensors`, or the shards that `model.safetensors.index.json` lists.
pub fn load_folder<B: HydraBackend, P: Parameters<B>>(
    folder: &Path,
    skeleton: &P,
    device: &B::Device,
    ignore: impl Fn(&str) -> bool,
) -> Result<P::On<B>, ModelError> {
    let single = folder.join("model.safetensors");
    let index = folder.join("model.safetensors.index.json");
    if single.is_file() {
        return load(&single, skeleton, device, ignore);
    }
    if !index.is_file() {
        let has_pickle = ["pytorch_model.bin", "pytorch_model.bin.index.json"]
            .iter()
            .any(|name| folder.join(name).is_file());
        return Err(ModelError::NoWeights { folder: folder.to_owned(), has_pickle });
    }
    let Index { weight_map } = read_json(&index)?;
    let shards: BTreeSet<PathBuf> = weight_map.into_values().map(|file| folder.join(file)).collect();
    load_files(&index, &Vec::from_iter(shards), skeleton, device, ignore)
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

fn load_files<B: HydraBackend, P: Parameters<B>>(
    path: &Path,
    files: &[PathBuf],
    skeleton: &P,
    device: &B::Device,
    ignore: impl Fn(&str) -> bool,
) -> Result<P::On<B>, ModelError> {
    let mut wanted = BTreeMap::new();
    skeleton.visit(&mut |name, tensor| {
        wanted.insert(name.to_owned(), tensor.dims());
    });
    let mut found: BTreeMap<String, Tensor<B, 2>> = BTreeMap::new();
    let mut problems = Vec::new();
    for file in files {
        let bytes = read(file)?;
        let tensors = SafeTensors::deserialize(&bytes)
            .map_err(|source| ModelError::Safetensors { path: file.clone(), source })?;
        for (name, view) in tensors.iter() {
            // Old checkpoints carry this table; it follows from the configuration.
            if ignore(name) || name.ends_with("rotary_emb.inv_freq") {
                continue;
            }
            match wanted.get(name) {
                None => problems.push(format!("unexpected: {name} {:?}", view.shape())),
                Some(&dims) => match read_tensor(name, &view, dims, device) {
                    Ok(tensor) => drop(found.insert(name.to_owned(), tensor)),
                    Err(problem) => problems.push(problem),
                },
            }
        }
        let present: BTreeSet<&str> = tensors.names().into_iter().collect();
        wanted.retain(|name, _| !present.contains(name.as_str()));
    }
    problems.extend(
        wanted.iter().map(|(name, dims)| format!("missing: {name} {:?}", shape_on_disk(name, *dims))),
    );
    if !problems.is_empty() {
        problems.sort();
        return Err(ModelError::Tensors { path: path.to_owned(), problems });
    }
    // Every name is there: whatever was not found is in `problems`.
    Ok(skeleton.map(&mut |name, tensor| found.remove(name).unwrap_or_else(|| tensor.clone())))
}

fn read_tensor<B: HydraBackend>(
    name: &str,
    view: &TensorView<'_>,
    dims: [usize; 2],
    device: &B::Device,
) -> Result<Tensor<B, 2>, String> {
    let shape = shape_on_disk(name, dims);
    if view.shape() != shape {
        return Err(format!("misshapen: {name} is {:?}, expected {shape:?}", view.shape()));
    }
    let values: Vec<f32> = match view.dtype() {
        Dtype::F32 => chunks(view.data(), f32::from_le_bytes),
        Dtype::F16 => chunks(view.data(), |bytes| f16::from_le_bytes(bytes).to_f32()),
        Dtype::BF16 => chunks(view.data(), |bytes| bf16::from_le_bytes(bytes).to_f32()),
        other => return Err(format!("unsupported type: {name} is {other:?}")),
    };
    Ok(Tensor::from_data(TensorData::new(values, dims), device))
}

fn chunks<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    bytes.as_chunks::<N>().0.iter().map(|&chunk| value(chunk)).collect()
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
