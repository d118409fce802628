//! `kind = "pretrain"`: language modelling on plain text, from scratch or continued.

use serde::{Deserialize, Serialize};

use super::{Source, Training};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pretrain {
    #[serde(flatten)]
    pub source: Source,
    /// Stage to continue from; empty = `[model] base`; from scratch when that is empty too.
    pub model: String,
    /// Shape of a model made from scratch; ignored when one is continued.
    #[serde(flatten)]
    pub architecture: Architecture,
    /// Tokens per training row.
    pub max_length: usize,
    /// Share of the documents held out for perplexity.
    pub eval_ratio: f64,
    #[serde(flatten)]
    pub training: Training,
}

impl Default for Pretrain {
    fn default() -> Self {
        Self {
            source: Source::default(),
            model: String::new(),
            architecture: Architecture::default(),
            max_length: 256,
            eval_ratio: 0.02,
            training: Training::default(),
        }
    }
}

/// A Llama-architecture decoder, under the names of its `config.json`, plus the vocabulary of its BPE.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Architecture {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub num_key_value_heads: usize,
    pub max_position_embeddings: usize,
    pub tie_word_embeddings: bool,
}

impl Default for Architecture {
    fn default() -> Self {
        Self {
            vocab_size: 1024,
            hidden_size: 128,
            intermediate_size: 384,
            num_hidden_layers: 4,
            num_attention_heads: 4,
            num_key_value_heads: 2,
            max_position_embeddings: 1024,
            tie_word_embeddings: true,
        }
    }
}
