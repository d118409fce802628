//! Model folders and adapters on disk.

use std::fs;
use std::path::Path;

use model::{Head, Llama, LlamaConfig, Lora, ModelError, Parameters};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::{Value, json};

use crate::tiny::{self, B};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn message<T>(result: Result<T, ModelError>) -> String {
    result.err().expect("an error").to_string()
}

fn edit_config(folder: &Path, edit: impl FnOnce(&mut Value)) {
    let path = folder.join("config.json");
    let mut config = serde_json::from_slice(&fs::read(&path).expect("config.json")).expect("JSON");
    edit(&mut config);
    fs::write(&path, config.to_string()).expect("written");
}

#[test]
fn saved_models_load_bit_for_bit_and_save_to_the_same_bytes() {
    for tied in [true, false] {
        let config = LlamaConfig { eos_token_id: vec![1, 2], ..tiny::config(tied, 6) };
        let decoder = tiny::llama(&config);
        let (first, second) = (folder(), folder());
        decoder.save(first.path()).expect("saved");
        let loaded = Llama::<B>::load(first.path(), &Default::default()).expect("loaded");
        assert_eq!(loaded.hash(), decoder.hash());
        assert_eq!(loaded.config(), &config);
        loaded.save(second.path()).expect("saved");
        for file in ["model.safetensors", "config.json", "generation_config.json"] {
            let bytes = |folder: &Path| fs::read(folder.join(file)).expect(file);
            assert_eq!(bytes(first.path()), bytes(second.path()), "{file}");
        }
    }
}

#[test]
fn a79_reward_model_needs_its_head() {
    let config = tiny::config(false, 4);
    let (decoder, head, device) = (tiny::llama(&config), tiny::head(&config), Default::default());
    let saved = folder();
    decoder.save_classifier(&head, saved.path()).expect("saved");
    let (_, loaded) = Llama::<B>::load_classifier(saved.path(), &device).expect("loaded");
    assert_eq!(loaded.hash(), head.hash());
    let error = message(Llama::<B>::load(saved.path(), &device));
    assert!(error.contains("architectures is [\"LlamaForSequenceClassification\"]"), "{error}");

    decoder.save(saved.path()).expect("saved");
    edit_config(saved.path(), |c| {
        c["architectures"] = json!(["LlamaForSequenceClassification"]);
        c["num_labels"] = json!(1);
    });
    let error = message(Llama::<B>::load_classifier(saved.path(), &device));
    assert!(error.contains("missing: score.weight [1, 16]"), "{error}");

    let missing = saved.path().join("value_head.safetensors");
    assert!(message(Head::<B>::load(&missing, 16, &device)).starts_with("E0501: cannot read"));
    head.save(&missing).expect("saved");
    let error = message(Head::<B>::load(&missing, 17, &device));
    assert!(error.contains("misshapen: score.weight is [1, 16], expected [1, 17]"), "{error}");
}

#[test]
fn every_tensor_that_does_not_fit_is_listed() {
    let saved = folder();
    tiny::llama(&tiny::config(false, 4)).save(saved.path()).expect("saved");
    edit_config(saved.path(), |c| {
        c["tie_word_embeddings"] = json!(true);
        c["num_hidden_layers"] = json!(1);
        c["vocab_size"] = json!(24);
    });
    let error = message(Llama::<B>::load(saved.path(), &Default::default()));
    let expected = "misshapen: model.embed_tokens.weight is [23, 16], expected [24, 16]";
    assert!(error.contains(expected), "{error}");
    assert!(error.contains("unexpected: model.layers.1.mlp.up_proj.weight [24, 16]"), "{error}");
    assert!(!error.contains("lm_head"), "a tied model may repeat its head: {error}");
    assert_eq!(error.lines().count(), 1 + 1 + 9, "{error}");
}

#[test]
fn a97_every_unsupported_field_of_config_json_is_named() {
    let saved = folder();
    tiny::llama(&tiny::config(true, 4)).save(saved.path()).expect("saved");
    edit_config(saved.path(), |c| {
        c["architectures"] = json!(["GPT2LMHeadModel"]);
        c["hidden_act"] = json!("gelu");
        c["attention_bias"] = json!(true);
        c["rope_scaling"] = json!({"rope_type": "llama3", "factor": 8.0});
        c["vocab_size"] = json!("many");
        c.as_object_mut().expect("an object").remove("hidden_size");
    });
    let error = message(Llama::<B>::load(saved.path(), &Default::default()));
    for field in [
        "architectures",
        "hidden_act",
        "attention_bias",
        "rope_scaling.rope_type",
        "vocab_size",
        "hidden_size is missing",
    ] {
        assert!(error.contains(field), "{field} in {error}");
    }
}

#[test]
fn configurations_of_newer_transformers_are_understood() {
    let saved = folder();
    tiny::llama(&tiny::config(true, 4)).save(saved.path()).expect("saved");
    edit_config(saved.path(), |c| {
        let fields = c.as_object_mut().expect("an object");
        for field in ["rope_theta", "rope_scaling", "head_dim", "torch_dtype"] {
            fields.remove(field);
        }
        c["rope_parameters"] = json!({"rope_type": "default", "rope_theta": 5e5});
        c["eos_token_id"] = json!([3, 4]);
    });
    let loaded = Llama::<B>::load(saved.path(), &Default::default()).expect("loaded");
    let config = loaded.config();
    assert_eq!((config.rope_theta, config.head_dim), (5e5, 4));
    assert_eq!(config.eos_token_id, [3, 4]);
}

#[test]
fn pickles_are_refused_with_advice_and_damaged_files_named() {
    let saved = folder();
    tiny::llama(&tiny::config(true, 4)).save(saved.path()).expect("saved");
    let weights = saved.path().join("model.safetensors");
    let bytes = fs::read(&weights).expect("weights");
    fs::write(&weights, &bytes[..bytes.len() / 2]).expect("cut");
    let error = message(Llama::<B>::load(saved.path(), &Default::default()));
    assert!(error.starts_with("E0504") && error.contains("model.safetensors"), "{error}");
    fs::rename(&weights, saved.path().join("pytorch_model.bin")).expect("renamed");
    let error = message(Llama::<B>::load(saved.path(), &Default::default()));
    assert!(error.starts_with("E0506") && error.contains("safe_serialization"), "{error}");
}

#[test]
fn shards_and_16_bit_weights_are_read() {
    let saved = folder();
    let decoder = tiny::llama(&tiny::config(true, 4));
    decoder.save(saved.path()).expect("saved");
    let path = saved.path().join("model.safetensors");
    let bytes = fs::read(&path).expect("weights");
    let tensors = SafeTensors::deserialize(&bytes).expect("valid");
    let mut map = serde_json::Map::new();
    for (index, (name, view)) in tensors.iter().enumerate() {
        // bf16 is the upper half of f32; the tiny weights are cut, not rounded, here and below.
        let half: Vec<u8> = view.data().chunks(4).flat_map(|f| [f[2], f[3]]).collect();
        let view = TensorView::new(Dtype::BF16, view.shape().to_vec(), &half).expect("a view");
        let file = format!("model-{}.safetensors", index % 2);
        let shard = saved.path().join(format!("{index}-{file}"));
        fs::write(&shard, safetensors::serialize([(name, view)], None).expect("valid")).expect("ok");
        map.insert(name.to_owned(), json!(format!("{index}-{file}")));
    }
    let index = json!({ "weight_map": map }).to_string();
    fs::write(saved.path().join("model.safetensors.index.json"), index).expect("written");
    fs::remove_file(&path).expect("removed");
    let loaded = Llama::<B>::load(saved.path(), &Default::default()).expect("loaded");
    let cut: Llama<B> = decoder.map(&mut |_, tensor| {
        let values: Vec<f32> = tiny::floats(tensor.clone())
            .into_iter()
            .map(|v| f32::from_bits(v.to_bits() & 0xFFFF_0000))
            .collect();
        burn::tensor::Tensor::from_data(
            burn::tensor::TensorData::new(values, tensor.dims()),
            &Default::default(),
        )
    });
    assert_eq!(loaded.hash(), cut.hash());
}

#[test]
fn a89_adapters_keep_their_alpha_and_load_bit_for_bit() {
    let config = tiny::config(true, 4);
    let (adapter, device) = (tiny::lora(&config), Default::default());
    let saved = folder();
    adapter.save(saved.path(), "base").expect("saved");
    let json: Value =
        serde_json::from_slice(&fs::read(saved.path().join("adapter_config.json")).expect("file"))
            .expect("JSON");
    assert_eq!((&json["r"], &json["lora_alpha"]), (&json!(3), &json!(6.0)));
    assert_eq!(json["task_type"], "CAUSAL_LM");
    let loaded = Lora::<B>::load(saved.path(), &config, &device).expect("loaded");
    assert_eq!(loaded.hash(), adapter.hash());
    assert_eq!(loaded.config(), adapter.config());
}

#[test]
fn a91_a_critic_is_saved_with_its_head_and_task() {
    let config = tiny::config(true, 4);
    let (adapter, saved) = (tiny::lora(&config), folder());
    adapter.save_classifier(&tiny::head(&config), saved.path(), "base").expect("saved");
    let text = fs::read_to_string(saved.path().join("adapter_config.json")).expect("file");
    assert!(text.contains("SEQ_CLS"), "{text}");
    let bytes = fs::read(saved.path().join("adapter_model.safetensors")).expect("weights");
    let tensors = SafeTensors::deserialize(&bytes).expect("valid");
    let head = tensors.tensor("base_model.model.score.weight").expect("the head PEFT looks for");
    assert_eq!(head.shape(), [1, 16]);
    let loaded = Lora::<B>::load(saved.path(), &config, &Default::default()).expect("loaded");
    assert_eq!(loaded.hash(), adapter.hash());
}

#[test]
fn an_adapter_of_another_model_is_refused() {
    let config = tiny::config(true, 4);
    let saved = folder();
    tiny::lora(&config).save(saved.path(), "base").expect("saved");
    let wider = LlamaConfig { intermediate_size: 25, num_hidden_layers: 3, ..config };
    let error = message(Lora::<B>::load(saved.path(), &wider, &Default::default()));
    assert!(error.contains("layers.0.mlp.down_proj.lora_A.weight is [3, 24]"), "{error}");
    assert!(error.contains("missing: base_model.model.model.layers.2."), "{error}");
}

#[test]
fn adapters_that_compute_something_else_are_refused() {
    let config = tiny::config(true, 4);
    let saved = folder();
    tiny::lora(&config).save(saved.path(), "base").expect("saved");
    let path = saved.path().join("adapter_config.json");
    let mut json: Value = serde_json::from_slice(&fs::read(&path).expect("file")).expect("JSON");
    json["use_dora"] = json!(true);
    json["alpha_pattern"] = json!({"q_proj": 64});
    json["bias"] = json!("all");
    fs::write(&path, json.to_string()).expect("written");
    let error = message(Lora::<B>::load(saved.path(), &config, &Default::default()));
    for field in ["use_dora", "alpha_pattern", "bias is \"all\""] {
        assert!(error.contains(field), "{field} in {error}");
    }
}

#[test]
fn a95_initial_weights_depend_on_seed_and_name_only() {
    let (small, device) = (tiny::config(true, 4), Default::default());
    let deep = LlamaConfig { num_hidden_layers: 3, ..small.clone() };
    let weights = |config: &LlamaConfig, seed| {
        let mut first = Vec::new();
        Llama::<B>::init(config, seed, &device).visit(&mut |name, tensor| {
            if name == "model.layers.1.mlp.up_proj.weight" {
                first = tiny::floats(tensor.clone());
            }
        });
        first
    };
    assert_eq!(weights(&small, 1), weights(&deep, 1));
    assert_ne!(weights(&small, 1), weights(&small, 2));
    let std = (weights(&small, 1).iter().map(|w| w * w).sum::<f32>() / 384.0).sqrt();
    assert!((std - 0.02).abs() < 0.003, "{std}");
}
