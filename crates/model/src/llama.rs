//! The Llama-architecture decoder.

use std::path::Path;
use std::sync::Arc;

use burn::tensor::Tensor;

use crate::attention::{Attention, Rope};
use crate::backend::HydraBackend;
use crate::batch::TokenBatch;
use crate::cache::Cache;
use crate::config::{Architecture, LlamaConfig};
use crate::error::ModelError;
use crate::heads::Head;
use crate::lora::{Lora, LoraLayer, Projection};
use crate::params::Parameters;
use crate::{init, plain, weights};

/// A decoder: token embedding, blocks, final norm, and a language-model head (tied to the embedding or its
/// own). Layers and names are those of `transformers`' `LlamaForCausalLM`.
#[derive(Debug, Clone)]
pub struct Llama<B: HydraBackend> {
    config: LlamaConfig,
    embed: Tensor<B, 2>,
    blocks: Vec<Block<B>>,
    norm: Tensor<B, 2>,
    /// `None` when tied, and in a reward model's trunk.
    lm_head: Option<Tensor<B, 2>>,
}

/// One block: attention and a gated feed-forward layer, each behind a norm and added to its input.
#[derive(Debug, Clone)]
struct Block<B: HydraBackend> {
    attention_norm: Tensor<B, 2>,
    mlp_norm: Tensor<B, 2>,
    /// Weights of the linear layers in the order of [`Projection::ALL`].
    linears: [Tensor<B, 2>; 7],
}

/// A block together with the part of an adapter that belongs to it.
struct Adapted<'a, B: HydraBackend> {
    block: &'a Block<B>,
    adapter: Option<&'a LoraLayer<B>>,
}

impl<B: HydraBackend> Adapted<'_, B> {
    fn linear(&self, which: Projection, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let weight = self.block.linears[which as usize].clone();
        match self.adapter.and_then(|layer| layer.pair(which)) {
            None => B::project(x, weight),
            Some(pair) => B::project(x.clone(), weight) + pair.forward(x),
        }
    }

    /// One pass over the block; `attend` turns rotated-to-be q, k, v into the attention's output.
    fn forward(
        &self,
        x: Tensor<B, 2>,
        eps: f64,
        attend: impl FnOnce(Tensor<B, 2>, Tensor<B, 2>, Tensor<B, 2>) -> Tensor<B, 2>,
    ) -> Tensor<B, 2> {
        let y = B::rms_norm(x.clone(), self.block.attention_norm.clone(), eps);
        let q = self.linear(Projection::Q, y.clone());
        let k = self.linear(Projection::K, y.clone());
        let v = self.linear(Projection::V, y);
        let x = x + self.linear(Projection::O, attend(q, k, v));
        let y = B::rms_norm(x.clone(), self.block.mlp_norm.clone(), eps);
        let gate = self.linear(Projection::Gate, y.clone());
        let up = self.linear(Projection::Up, y);
        x + self.linear(Projection::Down, B::silu_mul(gate, up))
    }
}

impl<B: HydraBackend> Llama<B> {
    /// A model with random weights: normal with `config.initializer_range`, norms 1. Each tensor depends
    /// on the seed and its name only.
    pub fn init(config: &LlamaConfig, seed: u64, device: &B::Device) -> Self {
        Self::skeleton(config, config.has_own_lm_head(), device).map(&mut |name, tensor| {
            if weights::is_vector(name) {
                tensor.clone()
            } else {
                init::normal(seed, name, tensor.dims(), config.initializer_range, device)
            }
        })
    }

    /// The right shapes without a value: norms 1, everything else one shared 0.
    fn skeleton(config: &LlamaConfig, own_lm_head: bool, device: &B::Device) -> Self {
        let matrix = |shape: [usize; 2]| Tensor::<B, 2>::zeros([1, 1], device).expand(shape);
        let norm = || Tensor::ones([1, config.hidden_size], device);
        let vocabulary = [config.vocab_size, config.hidden_size];
        let block = |_| Block {
            attention_norm: norm(),
            mlp_norm: norm(),
            linears: Projection::ALL.map(|which| matrix(which.shape(config))),
        };
        Self {
            config: config.clone(),
            embed: matrix(vocabulary),
            blocks: (0..config.num_hidden_layers).map(block).collect(),
            norm: norm(),
            lm_head: own_lm_head.then(|| matrix(vocabulary)),
        }
    }

    /// Reads a model folder of the Hugging Face form: `config.json` with `LlamaForCausalLM` and
    /// safetensors weights in one file or in shards. Weights of 16 bits are widened to f32.
    pub fn load(folder: &Path, device: &B::Device) -> Result<Self, ModelError> {
        let config = LlamaConfig::load(folder, Architecture::CausalLm)?;
        let skeleton = Self::skeleton(&config, config.has_own_lm_head(), device);
        // A tied model's file may repeat the embedding as its head.
        let tied = config.tie_word_embeddings;
        weights::load_folder(folder, &skeleton, device, |name| tied && name == "lm_head.weight")
    }

    /// Reads a reward model: `LlamaForSequenceClassification` with one label. Its trunk has no
    /// language-model head; its `score.weight` is required.
    pub fn load_classifier(folder: &Path, device: &B::Device) -> Result<(Self, Head<B>), ModelError> {
        let config = LlamaConfig::load(folder, Architecture::SequenceClassification)?;
        let trunk = Self::skeleton(&config, false, device);
        let head = Head::zeros(config.hidden_size, device);
        let loaded = weights::load_folder(folder, &Classifier(trunk, head), device, |_| false)?;
        Ok((loaded.0, loaded.1))
    }

    /// Writes `config.json`, `generation_config.json` and `model.safetensors` into an existing folder.
    pub fn save(&self, folder: &Path) -> Result<(), ModelError> {
        self.config.save(folder, Architecture::CausalLm)?;
        weights::save(&folder.join("model.safetensors"), self)
    }

    /// Writes a reward model as `LlamaForSequenceClassification`, the head as `score.weight`.
    pub fn save_classifier(&self, head: &Head<B>, folder: &Path) -> Result<(), ModelError> {
        self.config.save(folder, Architecture::SequenceClassification)?;
        let model = Classifier(Self { lm_head: None, ..self.clone() }, head.clone());
        weights::save(&folder.join("model.safetensors"), &model)
    }

    /// The model's shape.
    pub fn config(&self) -> &LlamaConfig {
        &self.config
    }

    /// Where the model is.
    pub fn device(&self) -> B::Device {
        self.embed.device()
    }

    /// Hidden states `[rows, cols, hidden]` after the final norm; those of pads are 0.
    ///
    /// # Panics
    /// When an id is outside the vocabulary, or a row is longer than `max_position_embeddings`.
    pub fn hidden(&self, batch: &TokenBatch, adapter: Option<&Lora<B>>) -> Tensor<B, 3> {
        let [rows, cols, width] = [batch.rows(), batch.cols(), self.config.hidden_size];
        let cells = batch.cells();
        if cells.is_empty() {
            return Tensor::zeros([rows, cols, width], &self.device());
        }
        let hidden = self.normed(self.packed(batch, adapter));
        plain::spread(hidden, cells, rows * cols).reshape([rows, cols, width])
    }

    /// Hidden states `[n, hidden]` after the final norm of the tokens at `flat` ([`TokenBatch::flat`]); the
    /// same numbers as [`hidden`](Self::hidden) with less work.
    ///
    /// # Panics
    /// As `hidden`, and when `flat` names a pad.
    pub fn hidden_at(&self, batch: &TokenBatch, adapter: Option<&Lora<B>>, flat: &[usize]) -> Tensor<B, 2> {
        let cells = batch.cells();
        if flat.is_empty() {
            return Tensor::zeros([0, self.config.hidden_size], &self.device());
        }
        let packed = |index: &usize| match cells.binary_search(index) {
            Ok(packed) => packed,
            Err(_) => panic!("there is no token at {index} of the batch"),
        };
        let index = plain::indices::<B>(flat.iter().map(packed), &self.device());
        self.normed(self.packed(batch, adapter).select(0, index))
    }

    /// What the blocks make of the real tokens, `[tokens, hidden]`, before the final norm.
    fn packed(&self, batch: &TokenBatch, adapter: Option<&Lora<B>>) -> Tensor<B, 2> {
        let (lens, ids) = self.tokens(batch);
        let at = Arc::new(Attention::new(&self.config, self.rope(batch.cols()), lens));
        let mut x = self.embed(&ids);
        for block in self.adapted(adapter) {
            x = block.forward(x, self.config.rms_norm_eps, |q, k, v| B::causal_attention(q, k, v, &at));
        }
        x
    }

    /// Lengths of the rows and their tokens, one row after the other.
    fn tokens(&self, batch: &TokenBatch) -> (Vec<usize>, Vec<u32>) {
        let lens = (0..batch.rows()).map(|row| batch.len(row)).collect();
        (lens, batch.cells().into_iter().map(|cell| batch.ids()[cell]).collect())
    }

    fn normed(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        B::rms_norm(x, self.norm.clone(), self.config.rms_norm_eps)
    }

    /// Logits `[n, vocab]` of hidden states `[n, hidden]`.
    ///
    /// # Panics
    /// For the trunk of a reward model, which has no language-model head.
    pub fn lm_head(&self, hidden: Tensor<B, 2>) -> Tensor<B, 2> {
        B::project(hidden, self.lm_head_weight())
    }

    /// Log-probabilities `[n]` of the given next tokens after hidden states `[n, hidden]`, with the logits
    /// divided by `temperature`. `[n, vocab]` is never kept.
    pub fn logprobs(&self, hidden: Tensor<B, 2>, targets: &[u32], temperature: f64) -> Tensor<B, 1> {
        B::target_logprobs(hidden, self.lm_head_weight(), targets, temperature)
    }

    fn lm_head_weight(&self) -> Tensor<B, 2> {
        match &self.lm_head {
            Some(weight) => weight.clone(),
            None => {
                assert!(self.config.tie_word_embeddings, "a reward model has no language-model head");
                self.embed.clone()
            }
        }
    }

    /// Reads the prompts into an empty cache; hidden states `[rows, hidden]` of their last tokens.
    pub(crate) fn prefill(
        &self,
        prompts: &[&[u32]],
        adapter: Option<&Lora<B>>,
        cache: &mut Cache<B>,
        rope: &Arc<Rope>,
    ) -> Tensor<B, 2> {
        let lens: Vec<usize> = prompts.iter().map(|prompt| prompt.len()).collect();
        let cells = cache.extend(&lens);
        let at = Arc::new(Attention::new(&self.config, rope.clone(), lens));
        let positions = at.positions();
        let mut x = self.embed(&prompts.concat());
        for (block, layer) in self.adapted(adapter).zip(&mut cache.layers) {
            x = block.forward(x, self.config.rms_norm_eps, |q, k, v| {
                layer.write(&cells, B::rotate(k.clone(), &positions, rope), v.clone());
                B::causal_attention(q, k, v, &at)
            });
        }
        let last = at.firsts[1..].iter().map(|next| next - 1);
        self.normed(x.select(0, plain::indices::<B>(last, &self.device())))
    }

    /// Reads one more token per row; its hidden states `[rows, hidden]`.
    pub(crate) fn step(
        &self,
        ids: &[u32],
        adapter: Option<&Lora<B>>,
        cache: &mut Cache<B>,
        rope: &Rope,
    ) -> Tensor<B, 2> {
        let positions: Vec<u32> = cache.shape.lens.iter().map(|&len| len as u32).collect();
        let cells = cache.extend(&vec![1; ids.len()]);
        let Cache { layers, shape, .. } = cache;
        let mut x = self.embed(ids);
        for (block, layer) in self.adapted(adapter).zip(layers) {
            x = block.forward(x, self.config.rms_norm_eps, |q, k, v| {
                layer.write(&cells, B::rotate(k, &positions, rope), v);
                layer.attend(B::rotate(q, &positions, rope), shape)
            });
        }
        self.normed(x)
    }

    /// Rotary tables for `positions` positions.
    pub(crate) fn rope(&self, positions: usize) -> Arc<Rope> {
        let limit = self.config.max_position_embeddings;
        assert!(positions <= limit, "{positions} tokens, but the model has {limit} positions");
        Arc::new(Rope::new(self.config.head_dim, self.config.rope_theta, positions))
    }

    fn embed(&self, ids: &[u32]) -> Tensor<B, 2> {
        let vocabulary = self.config.vocab_size;
        if let Some(id) = ids.iter().find(|&&id| id as usize >= vocabulary) {
            panic!("token id {id} is outside the model's vocabulary of {vocabulary}");
        }
        let index = plain::indices::<B>(ids.iter().map(|&id| id as usize), &self.device());
        self.embed.clone().select(0, index)
    }

    fn adapted<'a>(&'a self, adapter: Option<&'a Lora<B>>) -> impl Iterator<Item = Adapted<'a, B>> {
        self.blocks
            .iter()
            .enumerate()
            .map(move |(index, block)| Adapted { block, adapter: adapter.map(|a| a.layer(index)) })
    }

    /// The model with an adapter added into its weights, `W + α/r · B·A`.
    #[must_use]
    pub fn merged(&self, adapter: &Lora<B>) -> Self {
        let mut merged = self.clone();
        for (index, block) in merged.blocks.iter_mut().enumerate() {
            for which in Projection::ALL {
                if let Some(pair) = adapter.layer(index).pair(which) {
                    let weight = &mut block.linears[which as usize];
                    *weight = weight.clone() + pair.product();
                }
            }
        }
        merged
    }
}

impl<B: HydraBackend> Parameters<B> for Llama<B> {
    type On<C: HydraBackend> = Llama<C>;

    fn visit<'a>(&'a self, f: &mut dyn FnMut(&str, &'a Tensor<B, 2>)) {
        f("model.embed_tokens.weight", &self.embed);
        for (index, block) in self.blocks.iter().enumerate() {
            f(&format!("model.layers.{index}.input_layernorm.weight"), &block.attention_norm);
            f(&format!("model.layers.{index}.post_attention_layernorm.weight"), &block.mlp_norm);
            for which in Projection::ALL {
                let name = format!("model.layers.{index}.{}.weight", which.path());
                f(&name, &block.linears[which as usize]);
            }
        }
        f("model.norm.weight", &self.norm);
        if let Some(weight) = &self.lm_head {
            f("lm_head.weight", weight);
        }
    }

    fn map<C: HydraBackend>(&self, f: &mut dyn FnMut(&str, &Tensor<B, 2>) -> Tensor<C, 2>) -> Llama<C> {
        let embed = f("model.embed_tokens.weight", &self.embed);
        let blocks = self.blocks.iter().enumerate().map(|(index, block)| Block {
            attention_norm: f(&format!("model.layers.{index}.input_layernorm.weight"), &block.attention_norm),
            mlp_norm: f(&format!("model.layers.{index}.post_attention_layernorm.weight"), &block.mlp_norm),
            linears: Projection::ALL.map(|which| {
                let name = format!("model.layers.{index}.{}.weight", which.path());
                f(&name, &block.linears[which as usize])
            }),
        });
        let blocks = blocks.collect();
        let norm = f("model.norm.weight", &self.norm);
        let lm_head = self.lm_head.as_ref().map(|weight| f("lm_head.weight", weight));
        Llama { config: self.config.clone(), embed, blocks, norm, lm_head }
    }
}

/// A trunk and its `score.weight` in one file.
struct Classifier<B: HydraBackend>(Llama<B>, Head<B>);

impl<B: HydraBackend> Parameters<B> for Classifier<B> {
    type On<C: HydraBackend> = Classifier<C>;

    fn visit<'a>(&'a self, f: &mut dyn FnMut(&str, &'a Tensor<B, 2>)) {
        self.0.visit(f);
        self.1.visit(f);
    }

    fn map<C: HydraBackend>(&self, f: &mut dyn FnMut(&str, &Tensor<B, 2>) -> Tensor<C, 2>) -> Classifier<C> {
        Classifier(self.0.map(f), self.1.map(f))
    }
}
