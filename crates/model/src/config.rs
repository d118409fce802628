//! `config.json` of a Llama-architecture model.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::ModelError;
use crate::weights;

/// Which of the two forms of model a folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// `LlamaForCausalLM`: predicts tokens.
    CausalLm,
    /// `LlamaForSequenceClassification` with one label: a reward model.
    SequenceClassification,
}

impl Architecture {
    /// The name in `architectures`.
    pub fn name(self) -> &'static str {
        match self {
            Self::CausalLm => "LlamaForCausalLM",
            Self::SequenceClassification => "LlamaForSequenceClassification",
        }
    }
}

/// Shape of a decoder, under the names of its `config.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LlamaConfig {
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Number of blocks.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; a divisor of `num_attention_heads`.
    pub num_key_value_heads: usize,
    /// Width of one head; even.
    pub head_dim: usize,
    /// Longest row.
    pub max_position_embeddings: usize,
    /// ε of the norms.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Whether the language-model head is the embedding.
    pub tie_word_embeddings: bool,
    /// Standard deviation of initial weights.
    pub initializer_range: f64,
    /// Token that begins a text.
    pub bos_token_id: Option<u32>,
    /// Tokens that end a text.
    pub eos_token_id: Vec<u32>,
    /// Token that fills rows.
    pub pad_token_id: Option<u32>,
}

impl Default for LlamaConfig {
    /// A small model for tests and models made from scratch.
    fn default() -> Self {
        Self {
            vocab_size: 1024,
            hidden_size: 128,
            intermediate_size: 384,
            num_hidden_layers: 4,
            num_attention_heads: 4,
            num_key_value_heads: 2,
            head_dim: 32,
            max_position_embeddings: 1024,
            rms_norm_eps: 1e-5,
            rope_theta: 10_000.0,
            tie_word_embeddings: true,
            initializer_range: 0.02,
            bos_token_id: None,
            eos_token_id: Vec::new(),
            pad_token_id: None,
        }
    }
}

impl LlamaConfig {
    /// Reads `config.json` of a folder. All that this crate does not run is listed in one error.
    pub fn load(folder: &Path, architecture: Architecture) -> Result<Self, ModelError> {
        let path = folder.join("config.json");
        let fields: Map<String, Value> = weights::read_json(&path)?;
        let mut reader = Reader { fields: &fields, problems: Vec::new() };
        let config = reader.config(architecture);
        let problems = reader.problems;
        if problems.is_empty() { Ok(config) } else { Err(ModelError::Config { path, problems }) }
    }

    /// Writes `config.json` and `generation_config.json`.
    pub(crate) fn save(&self, folder: &Path, architecture: Architecture) -> Result<(), ModelError> {
        let mut fields = json!({
            "architectures": [architecture.name()],
            "model_type": "llama",
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "max_position_embeddings": self.max_position_embeddings,
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": self.rope_theta,
            "rope_scaling": null,
            "attention_bias": false,
            "mlp_bias": false,
            "attention_dropout": 0.0,
            "tie_word_embeddings": self.tie_word_embeddings,
            "initializer_range": self.initializer_range,
            "torch_dtype": "float32",
            "use_cache": true,
        });
        if architecture == Architecture::SequenceClassification {
            fields["num_labels"] = json!(1);
            fields["id2label"] = json!({"0": "LABEL_0"});
            fields["label2id"] = json!({"LABEL_0": 0});
        }
        let ids = self.special_ids();
        for (key, value) in &ids {
            fields[key] = value.clone();
        }
        weights::write_json(&folder.join("config.json"), &fields)?;
        match architecture {
            Architecture::CausalLm => weights::write_json(&folder.join("generation_config.json"), &ids),
            Architecture::SequenceClassification => Ok(()),
        }
    }

    fn special_ids(&self) -> Map<String, Value> {
        let eos = match self.eos_token_id[..] {
            [] => Value::Null,
            [id] => json!(id),
            ref ids => json!(ids),
        };
        let fields = [
            ("bos_token_id", json!(self.bos_token_id)),
            ("eos_token_id", eos),
            ("pad_token_id", json!(self.pad_token_id)),
        ];
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// Whether the language-model head is a tensor of its own.
    pub fn has_own_lm_head(&self) -> bool {
        !self.tie_word_embeddings
    }

    /// What is wrong with the numbers, one line each.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (field, value) in [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads),
            ("head_dim", self.head_dim),
            ("max_position_embeddings", self.max_position_embeddings),
        ] {
            if value == 0 {
                problems.push(format!("{field} must be above 0"));
            }
        }
        if !self.head_dim.is_multiple_of(2) {
            problems.push(format!("head_dim is {}, it must be even", self.head_dim));
        }
        let (heads, kv_heads) = (self.num_attention_heads, self.num_key_value_heads);
        if kv_heads > 0 && !heads.is_multiple_of(kv_heads) {
            problems.push(format!(
                "num_attention_heads {heads} is not a multiple of num_key_value_heads {kv_heads}"
            ));
        }
        problems
    }
}

/// Takes fields out of a `config.json` and collects what does not fit.
struct Reader<'a> {
    fields: &'a Map<String, Value>,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn config(&mut self, architecture: Architecture) -> LlamaConfig {
        self.check_kind(architecture);
        let num_attention_heads = self.required("num_attention_heads");
        let hidden_size: usize = self.required("hidden_size");
        let head_dim = hidden_size.checked_div(num_attention_heads).unwrap_or(0);
        let config = LlamaConfig {
            vocab_size: self.required("vocab_size"),
            hidden_size,
            intermediate_size: self.required("intermediate_size"),
            num_hidden_layers: self.required("num_hidden_layers"),
            num_attention_heads,
            num_key_value_heads: self.optional("num_key_value_heads", num_attention_heads),
            head_dim: self.optional("head_dim", head_dim),
            max_position_embeddings: self.optional("max_position_embeddings", 2048),
            rms_norm_eps: self.optional("rms_norm_eps", 1e-6),
            rope_theta: self.rope_theta(),
            tie_word_embeddings: self.optional("tie_word_embeddings", false),
            initializer_range: self.optional("initializer_range", 0.02),
            bos_token_id: self.optional("bos_token_id", None),
            eos_token_id: self.ids("eos_token_id"),
            pad_token_id: self.optional("pad_token_id", None),
        };
        // A required field that is absent is already listed and would only repeat itself as a zero.
        if self.problems.is_empty() {
            self.problems.extend(config.problems());
        }
        config
    }

    fn check_kind(&mut self, architecture: Architecture) {
        let (field, wanted) = ("architectures", json!([architecture.name()]));
        match self.fields.get(field) {
            Some(found) if *found == wanted => {}
            Some(found) => self.problems.push(format!("{field} is {found}, expected {wanted}")),
            None => self.problems.push(format!("{field} is missing, expected {wanted}")),
        }
        self.expect("model_type", &json!("llama"));
        self.expect("hidden_act", &json!("silu"));
        self.expect("attention_bias", &json!(false));
        self.expect("mlp_bias", &json!(false));
        self.expect("quantization_config", &Value::Null);
        if architecture == Architecture::SequenceClassification {
            self.expect("num_labels", &json!(1));
            let labels = self.fields.get("id2label").and_then(Value::as_object).map(Map::len);
            if labels.is_none_or(|count| count != 1) && !self.fields.contains_key("num_labels") {
                self.problems.push("a reward model needs num_labels 1".to_owned());
            }
        }
    }

    /// A field that, when it is there, must have the one value that is implemented.
    fn expect(&mut self, field: &str, wanted: &Value) {
        match self.fields.get(field) {
            None | Some(Value::Null) => {}
            Some(found) if found == wanted => {}
            Some(found) => {
                self.problems.push(format!("{field} is {found}, only {wanted} is supported"));
            }
        }
    }

    /// θ from `rope_theta`, or from `rope_parameters` as transformers 5 writes it. Any scaling of the
    /// frequencies is refused.
    fn rope_theta(&mut self) -> f64 {
        for field in ["rope_scaling", "rope_parameters"] {
            let Some(Value::Object(scaling)) = self.fields.get(field) else { continue };
            let kind = scaling.get("rope_type").or_else(|| scaling.get("type"));
            match kind {
                None => {}
                Some(kind) if kind == "default" => {}
                Some(kind) => {
                    self.problems.push(format!("{field}.rope_type is {kind}, only \"default\" is supported"))
                }
            }
            if let Some(theta) = scaling.get("rope_theta").and_then(Value::as_f64) {
                return theta;
            }
        }
        self.optional("rope_theta", 10_000.0)
    }

    fn required<T: for<'a> Deserialize<'a> + Default>(&mut self, field: &str) -> T {
        if !self.fields.contains_key(field) {
            self.problems.push(format!("{field} is missing"));
            return T::default();
        }
        self.optional(field, T::default())
    }

    fn optional<T: for<'a> Deserialize<'a>>(&mut self, field: &str, default: T) -> T {
        let value = match self.fields.get(field) {
            None | Some(Value::Null) => return default,
            Some(value) => value.clone(),
        };
        match serde_json::from_value(value) {
            Ok(value) => value,
            Err(error) => {
                self.problems.push(format!("{field}: {error}"));
                default
            }
        }
    }

    /// One id or a list of them.
    fn ids(&mut self, field: &str) -> Vec<u32> {
        match self.fields.get(field) {
            Some(Value::Array(_)) => self.optional(field, Vec::new()),
            _ => self.optional::<Option<u32>>(field, None).into_iter().collect(),
        }
    }
}
