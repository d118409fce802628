//! One safetensors file: its header, checked before anything else is read, and values at their places.
//!
//! Values are read with positioned reads, not through a mapping: a mapped file that is cut short by someone
//! else ends the process with SIGBUS, a read reports it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use burn::tensor::{bf16, f16};
use rayon::prelude::*;
use safetensors::Dtype;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::ModelError;

/// The length of the header, in front of it.
const PREFIX: u64 = 8;

/// Longest header in bytes; the limit of the safetensors library.
const MAX_HEADER: u64 = 100_000_000;

/// Most dimensions of a tensor, far above what weights have.
const MAX_RANK: usize = 8;

/// Values that one thread reads at a time; small enough to stay in its cache.
const CHUNK: usize = 1 << 16;

/// A file whose header describes exactly the bytes that it has.
#[derive(Debug)]
pub struct Shard {
    pub path: PathBuf,
    pub entries: BTreeMap<String, Entry>,
    file: File,
    /// Where the values begin.
    data: u64,
}

/// What a header says of a tensor.
#[derive(Debug, Clone, Deserialize)]
pub struct Entry {
    pub dtype: Dtype,
    #[serde(deserialize_with = "shape")]
    pub shape: Vec<usize>,
    /// First byte and end, counted from the first value of the file.
    data_offsets: (u64, u64),
}

impl Shard {
    /// Opens a file and checks its header against its length. What is allocated is bounded by the header,
    /// and the header by the file.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        let unreadable = |source| ModelError::File { action: "read", path: path.to_owned(), source };
        let invalid = |problem: String| ModelError::Safetensors { path: path.to_owned(), problem };
        // Opening a pipe would wait for its other end.
        if !fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(unreadable(io::Error::other("not a regular file")));
        }
        let file = File::open(path).map_err(unreadable)?;
        let size = file.metadata().map_err(unreadable)?.len();
        let Some(rest) = size.checked_sub(PREFIX) else {
            return Err(invalid(format!("it has only {size} bytes")));
        };
        let mut prefix = [0; PREFIX as usize];
        file.read_exact_at(&mut prefix, 0).map_err(unreadable)?;
        let length = u64::from_le_bytes(prefix);
        if length > rest.min(MAX_HEADER) {
            return Err(invalid(format!("a header of {length} bytes is announced in a file of {size}")));
        }
        let mut header = vec![0; length as usize];
        file.read_exact_at(&mut header, PREFIX).map_err(unreadable)?;
        let Named { entries, twice } = serde_json::from_slice::<Named<Entry>>(&header)
            .map_err(|error| invalid(format!("its header cannot be read: {error}")))?;
        if !twice.is_empty() {
            return Err(invalid(format!("its header names more than once: {}", twice.join(", "))));
        }
        check(&entries, rest - length).map_err(invalid)?;
        Ok(Self { path: path.to_owned(), entries, file, data: PREFIX + length })
    }

    /// The values of a tensor of this file, widened to f32. All cores read and convert; besides the result
    /// there is one small buffer for each.
    pub fn values(&self, entry: &Entry) -> io::Result<Vec<f32>> {
        match entry.dtype {
            Dtype::F32 => self.widened(entry, f32::from_le_bytes),
            Dtype::F16 => self.widened(entry, |bytes| f16::from_le_bytes(bytes).to_f32()),
            Dtype::BF16 => self.widened(entry, |bytes| bf16::from_le_bytes(bytes).to_f32()),
            other => Err(io::Error::other(format!("values of type {other} are not read"))),
        }
    }

    fn widened<const N: usize>(
        &self,
        entry: &Entry,
        value: impl Fn([u8; N]) -> f32 + Sync,
    ) -> io::Result<Vec<f32>> {
        let (start, end) = entry.data_offsets;
        let mut values = vec![0.0; (end - start) as usize / N];
        values.par_chunks_mut(CHUNK).enumerate().try_for_each_init(Vec::new, |bytes, (index, part)| {
            bytes.resize(part.len() * N, 0);
            self.file.read_exact_at(bytes, self.data + start + (index * CHUNK * N) as u64)?;
            for (slot, &chunk) in part.iter_mut().zip(bytes.as_chunks::<N>().0) {
                *slot = value(chunk);
            }
            io::Result::Ok(())
        })?;
        Ok(values)
    }
}

/// Whether the tensors lie one after the other, each as long as its shape says, and fill `length` bytes.
fn check(entries: &BTreeMap<String, Entry>, length: u64) -> Result<(), String> {
    let mut ordered: Vec<_> = entries.iter().collect();
    ordered.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut at = 0;
    for (name, entry) in ordered {
        let (start, end) = entry.data_offsets;
        if start < at {
            return Err(format!("{name} begins at {start}, inside of the tensor before it"));
        }
        if start > at {
            return Err(format!("there is a hole of {} bytes before {name}", start - at));
        }
        if entry.bytes().is_none_or(|bytes| start.checked_add(bytes) != Some(end)) {
            let (dtype, shape) = (entry.dtype, &entry.shape);
            return Err(format!("{name} is {dtype} {shape:?}, which bytes {start} to {end} do not hold"));
        }
        if end > length {
            let missing = end - length;
            return Err(format!("{name} ends {missing} bytes after the end of the file: it was cut short"));
        }
        at = end;
    }
    if at < length { Err(format!("{} bytes at its end belong to no tensor", length - at)) } else { Ok(()) }
}

impl Entry {
    /// Whether [`Shard::values`] reads the type.
    pub fn is_float(&self) -> bool {
        matches!(self.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16)
    }

    /// Bytes that shape and type need; `None` when that overflows or is no whole number.
    fn bytes(&self) -> Option<u64> {
        let bits = self
            .shape
            .iter()
            .try_fold(self.dtype.bitsize() as u64, |bits, &dim| bits.checked_mul(u64::try_from(dim).ok()?))?;
        bits.is_multiple_of(8).then_some(bits / 8)
    }
}

fn shape<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<usize>, D::Error> {
    struct Dims;
    impl<'de> Visitor<'de> for Dims {
        type Value = Vec<usize>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MAX_RANK} dimensions")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut dims = Vec::new();
            while let Some(dim) = seq.next_element()? {
                if dims.len() == MAX_RANK {
                    return Err(A::Error::invalid_length(MAX_RANK + 1, &self));
                }
                dims.push(dim);
            }
            Ok(dims)
        }
    }
    deserializer.deserialize_seq(Dims)
}

/// A JSON object by name, without `__metadata__`. A name that comes twice is kept, not lost.
pub struct Named<V> {
    pub entries: BTreeMap<String, V>,
    pub twice: Vec<String>,
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Named<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<V>(Named<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = Named<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let Self(mut named) = self;
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    match named.entries.entry(name) {
                        Slot::Vacant(slot) => {
                            slot.insert(map.next_value()?);
                        }
                        Slot::Occupied(slot) => {
                            map.next_value::<IgnoredAny>()?;
                            named.twice.push(slot.key().clone());
                        }
                    }
                }
                Ok(named)
            }
        }
        deserializer.deserialize_map(Entries(Self { entries: BTreeMap::new(), twice: Vec::new() }))
    }
}
