//! `kind = "pretrain"`: language modelling on plain text, from scratch or continued.

use super::{Source, Training};
use crate::section::section;

section! {
    /// `kind = "pretrain"`
    pub struct Pretrain {
        /// Stage to continue from; empty = `[model] base`; from scratch when that is empty too.
        pub model: String = String::new() => stage(&["pretrain", "sft"]),
        /// Tokens per training row.
        pub max_length: usize = 256 => at_least(2.0),
        /// Share of the documents held out for perplexity.
        pub eval_ratio: f64 = 0.02 => ratio().below(1.0),
    }
    flatten {
        pub source: Source,
        /// Shape of a model made from scratch.
        pub architecture: Architecture,
        pub training: Training,
    }
}

section! {
    /// A Llama-architecture decoder, under the names of its `config.json`, plus the vocabulary of its BPE.
    /// Only for a model made from scratch.
    pub struct Architecture {
        /// Tokens of the byte-level BPE that is trained on the text.
        pub vocab_size: usize = 1024 => at_least(258.0),
        /// Width of the residual stream.
        pub hidden_size: usize = 128 => at_least(2.0),
        /// Width inside the feed-forward blocks.
        pub intermediate_size: usize = 384 => at_least(1.0),
        /// Blocks.
        pub num_hidden_layers: usize = 4 => at_least(1.0),
        /// Query heads.
        pub num_attention_heads: usize = 4 => at_least(1.0),
        /// Key and value heads; query heads share them in groups.
        pub num_key_value_heads: usize = 2 => at_least(1.0),
        /// Longest sequence, in tokens.
        pub max_position_embeddings: usize = 1024 => at_least(2.0),
        /// Whether the LM head is the embedding matrix.
        pub tie_word_embeddings: bool = true,
    }
}
