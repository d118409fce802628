//! What loading and saving need beside the model itself, measured in a process of its own.

use std::fs;
use std::process::Command;

use model::{Llama, Parameters};
use serde_json::{Map, Value, json};

use crate::tiny::{self, B};

/// Set in the child: the folder it loads.
const FOLDER: &str = "MODEL_TEST_FOLDER";

/// A config and bf16 weights of which every byte is a hole in the file; bytes of the model in memory.
fn large_model(folder: &std::path::Path) -> u64 {
    tiny::llama(&tiny::config(true, 4)).save(folder).expect("saved");
    let path = folder.join("config.json");
    let mut config: Value = serde_json::from_slice(&fs::read(&path).expect("it reads")).expect("JSON");
    let (vocab, hidden, inner, blocks) = (32_768, 512, 2048, 8);
    for (key, value) in [("vocab_size", vocab), ("hidden_size", hidden), ("intermediate_size", inner)] {
        config[key] = value.into();
    }
    for (key, value) in [("num_hidden_layers", blocks), ("head_dim", 128), ("num_key_value_heads", 4)] {
        config[key] = value.into();
    }
    fs::write(&path, config.to_string()).expect("written");

    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), vec![vocab, hidden]),
        ("model.norm.weight".to_owned(), vec![hidden]),
    ];
    for block in 0..blocks {
        let mut add = |name: &str, shape: &[u64]| {
            tensors.push((format!("model.layers.{block}.{name}.weight"), shape.to_vec()));
        };
        for name in ["q", "k", "v", "o"] {
            add(&format!("self_attn.{name}_proj"), &[hidden, hidden]);
        }
        add("mlp.gate_proj", &[inner, hidden]);
        add("mlp.up_proj", &[inner, hidden]);
        add("mlp.down_proj", &[hidden, inner]);
        add("input_layernorm", &[hidden]);
        add("post_attention_layernorm", &[hidden]);
    }
    let (mut header, mut at) = (Map::new(), 0);
    for (name, shape) in tensors {
        let end = at + 2 * shape.iter().product::<u64>();
        header.insert(name, json!({"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}));
        at = end;
    }
    let header = Value::Object(header).to_string();
    let path = folder.join("model.safetensors");
    fs::write(&path, [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()).expect("written");
    let file = fs::OpenOptions::new().write(true).open(&path).expect("it opens");
    file.set_len(8 + header.len() as u64 + at).expect("a longer file");
    2 * at
}

/// Most memory that this process ever had, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

#[test]
fn loading_needs_hardly_more_than_the_model_and_saving_no_second_one() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let folder = std::path::Path::new(&folder);
        let before = peak();
        let model = Llama::<B>::load(folder, &Default::default()).expect("loaded");
        let loaded = peak();
        model.save(folder).expect("saved");
        println!("\nPEAKS {} {} {}", loaded - before, peak() - before, 4 * model.count());
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let size = large_model(folder.path());
    let name = "memory::loading_needs_hardly_more_than_the_model_and_saving_no_second_one";
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    let output = child.args(["--exact", name, "--nocapture"]).env(FOLDER, folder.path()).output();
    let output = String::from_utf8(output.expect("it ran").stdout).expect("text");
    let line = output.lines().find_map(|line| line.strip_prefix("PEAKS ")).expect(&output);
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().expect("a number")).collect();
    assert_eq!(numbers[2], size, "{output}");
    assert!(size > 200_000_000 && numbers[0] as f64 / (size as f64) < 1.15, "{output}");
    assert!((numbers[1] as f64) / (size as f64) < 1.9, "{output}");
}
