//! Damaged and hostile weights: an error that says what is wrong, never a panic, and never an allocation
//! that the file could not fill (a petabyte, as some of these announce, would end the process).

use std::fs;
use std::path::Path;

use model::{Head, Llama, ModelError, Parameters, check_weights};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::tiny::{self, B};

fn file_of(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; data]].concat()
}

fn load(folder: &Path, bytes: &[u8]) -> Result<Head<B>, ModelError> {
    let path = folder.join("head.safetensors");
    fs::write(&path, bytes).expect("written");
    Head::load(&path, 4, &Default::default())
}

/// The bytes of a head of width 4, and its hash.
fn head(folder: &Path) -> (Vec<u8>, String) {
    let head = Head::<B>::init(4, 0.5, 1, &Default::default());
    let path = folder.join("head.safetensors");
    head.save(&path).expect("saved");
    (fs::read(path).expect("it reads"), head.hash())
}

#[test]
fn a_file_that_is_cut_short_anywhere_or_has_a_byte_too_many_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut bytes, _) = head(folder.path());
    for length in 0..bytes.len() {
        let error = load(folder.path(), &bytes[..length]).expect_err("cut").to_string();
        assert!(error.starts_with("E0504"), "{length}: {error}");
    }
    bytes.push(0);
    let error = load(folder.path(), &bytes).expect_err("too long").to_string();
    assert!(error.contains("1 bytes at its end belong to no tensor"), "{error}");
}

#[test]
fn a_flipped_bit_in_the_header_is_refused_or_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (bytes, hash) = head(folder.path());
    let (mut refused, header) = (0, bytes.len() - 16);
    for bit in 0..header * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        match load(folder.path(), &bytes) {
            Ok(head) => assert_eq!(head.hash(), hash, "bit {bit}"),
            Err(error) => refused += usize::from(["E0504", "E0505"].contains(&error.code())),
        }
    }
    assert!(refused > header * 5, "{refused} of {}", header * 8);
}

#[test]
fn headers_that_lie_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let tensor = |shape: &str, offsets: &str| {
        format!(r#""score.weight":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}"#)
    };
    let good = tensor("[1,4]", "[0,16]");
    let max = u64::MAX;
    for (header, expected) in [
        (String::new(), "cannot be read"),
        ("[".repeat(200_000), "cannot be read"),
        (format!("{{{}}}", tensor(&format!("[{max},{max}]"), "[0,16]")), "do not hold"),
        (
            format!("{{{}}}", tensor(&format!("[{},4]", 1_u64 << 48), &format!("[0,{}]", 1_u64 << 52))),
            "cut short",
        ),
        (format!("{{{}}}", tensor("[1,4]", &format!("[0,{max}]"))), "do not hold"),
        (format!("{{{}}}", tensor("[1,4]", "[16,0]")), "a hole"),
        (format!("{{{}}}", tensor("[1,4]", "[0,-1]")), "cannot be read"),
        (format!("{{{}}}", tensor(&format!("[{}1]", "1,".repeat(9)), "[0,4]")), "at most 8 dimensions"),
        (format!("{{{}}}", tensor("[0,4]", "[0,0]")), "16 bytes at its end"),
        (format!("{{{good},{good}}}"), "more than once: score.weight"),
        (
            format!("{{{good},\"b\":{{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}}}"),
            "inside of",
        ),
        (
            format!("{{{good},\"b\":{{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[16,16]}}}}"),
            "do not hold",
        ),
        (
            format!("{{{good},\"b\":{{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[16,16]}}}}"),
            "unexpected: b [0]",
        ),
        (format!("{{{}}}", good.replace("F32", "I32")), "unsupported type: score.weight is I32"),
        (format!("{{{}}}", good.replace("F32", "F99")), "cannot be read"),
    ] {
        let error = load(folder.path(), &file_of(&header, 16)).expect_err(&header).to_string();
        assert!(error.contains(expected), "{header:.200}: {error}");
    }
    for length in [17, 99_999_999, 1 << 40, u64::MAX] {
        let bytes = [&length.to_le_bytes()[..], &[b' '; 16]].concat();
        let error = load(folder.path(), &bytes).expect_err("too long").to_string();
        assert!(error.contains("is announced in a file of 24"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_headers_are_refused_without_a_panic(
        dtype in "F32|F16|BF16|F4|I64",
        shape in prop::collection::vec(prop_oneof![0..5_u64, any::<u64>()], 0..5),
        offsets in [prop_oneof![0..40_u64, any::<u64>()], prop_oneof![0..40_u64, any::<u64>()]],
        cut in 0..200_usize,
        noise in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let tensor = json!({"dtype": dtype, "shape": shape, "data_offsets": offsets});
        let header = json!({"score.weight": tensor}).to_string();
        let fits = dtype.ends_with("16") && shape == [1, 4] && offsets == [0, 8];
        prop_assert!(fits || load(folder.path(), &file_of(&header, 8)).is_err());
        prop_assert!(load(folder.path(), &noise).is_err());
        let mut bytes = file_of(&header, 8);
        bytes.truncate(cut);
        bytes.extend(noise);
        if let Err(error) = load(folder.path(), &bytes) {
            prop_assert!(["E0504", "E0505"].contains(&error.code()), "{}", error);
        }
    }
}

/// A tiny model in two shards, and its index.
fn shards(folder: &Path) -> Value {
    tiny::llama(&tiny::config(true, 4)).save(folder).expect("saved");
    let bytes = fs::read(folder.join("model.safetensors")).expect("weights");
    let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("valid");
    fs::remove_file(folder.join("model.safetensors")).expect("removed");
    let mut map = serde_json::Map::new();
    for (file, layers) in [("a.safetensors", true), ("b.safetensors", false)] {
        let part: Vec<_> = tensors.iter().filter(|(name, _)| name.contains("layers") == layers).collect();
        map.extend(part.iter().map(|(name, _)| ((*name).to_owned(), file.into())));
        fs::write(folder.join(file), safetensors::serialize(part, None).expect("valid")).expect("written");
    }
    json!({"metadata": {"total_size": 1}, "weight_map": map})
}

fn with_index(folder: &Path, index: &str) -> Result<(), ModelError> {
    fs::write(folder.join("model.safetensors.index.json"), index).expect("written");
    let checked = check_weights(folder);
    let loaded = Llama::<B>::load(folder, &Default::default());
    assert_eq!(checked.is_ok(), loaded.is_ok(), "checked as it is loaded");
    checked
}

#[test]
fn an_index_that_leads_out_of_the_folder_is_refused() {
    let (folder, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let index = shards(folder.path());
    with_index(folder.path(), &index.to_string()).expect("a good index");
    let target = outside.path().join("b.safetensors");
    fs::copy(folder.path().join("b.safetensors"), &target).expect("copied");
    std::os::unix::fs::symlink(&target, folder.path().join("link.safetensors")).expect("linked");
    fs::create_dir(folder.path().join("sub")).expect("made");
    fs::copy(&target, folder.path().join("sub/b.safetensors")).expect("copied");
    let (up, absolute) = ("../b.safetensors", target.to_str().expect("text"));
    for name in [up, absolute, "sub/b.safetensors", "./b.safetensors", "..", "", "a\0b", "C:\\b"] {
        let text = index.to_string().replace("\"b.safetensors\"", &json!(name).to_string());
        let error = with_index(folder.path(), &text).expect_err(name).to_string();
        assert!(error.starts_with("E0505") && error.contains("not a plain file name"), "{name}: {error}");
    }
    let text = index.to_string().replace("b.safetensors", "link.safetensors");
    let error = with_index(folder.path(), &text).expect_err("a link").to_string();
    assert!(error.contains("a link out of the folder: link.safetensors"), "{error}");
}

#[test]
fn the_links_of_the_hubs_cache_are_followed() {
    let cache = tempfile::tempdir().expect("a folder");
    let folder = cache.path().join("snapshots/0123");
    fs::create_dir_all(&folder).expect("made");
    fs::create_dir(cache.path().join("blobs")).expect("made");
    let index = shards(&folder);
    fs::rename(folder.join("b.safetensors"), cache.path().join("blobs/4567")).expect("moved");
    std::os::unix::fs::symlink("../../blobs/4567", folder.join("b.safetensors")).expect("linked");
    with_index(&folder, &index.to_string()).expect("followed");
}

#[test]
fn everything_that_index_and_shards_disagree_on_is_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut index = shards(folder.path());
    let map = index["weight_map"].as_object_mut().expect("an object");
    map.remove("model.layers.0.mlp.up_proj.weight");
    map.insert("model.norm.weight".into(), "a.safetensors".into());
    map.insert("model.more.weight".into(), "c.safetensors".into());
    let text = index.to_string().replacen(
        "\"weight_map\":{",
        "\"weight_map\":{\"model.embed_tokens.weight\":\"b.safetensors\",",
        1,
    );
    let error = with_index(folder.path(), &text).expect_err("a bad index").to_string();
    for line in [
        "twice in the index: model.embed_tokens.weight",
        "not in the index: model.layers.0.mlp.up_proj.weight of a.safetensors",
        "not in its file: model.norm.weight, which the index says is in a.safetensors",
        "twice: model.norm.weight is in b.safetensors, but the index says a.safetensors",
        "named by the index, but missing: c.safetensors",
    ] {
        assert!(error.contains(line), "{line} in {error}");
    }
    assert_eq!(error.lines().count(), 6, "{error}");
    let error = with_index(folder.path(), "{\"weight_map\": [1]}").expect_err("no index");
    assert_eq!(error.code(), "E0502");
}
