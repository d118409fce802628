//! Keys and values of the tokens already read.

use burn::tensor::{Int, Tensor, TensorData};

use crate::backend::HydraBackend;
use crate::config::LlamaConfig;

/// The part of a cache's shape that attention over it needs.
#[derive(Debug, Clone)]
pub struct CacheShape {
    /// Tokens in the cache, pads on the left included; the same for all rows.
    pub len: usize,
    /// First real token of each row.
    pub starts: Vec<usize>,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
}

/// Rotated keys, and values, of every layer: `[rows, capacity, kv_heads · head_dim]` each.
#[derive(Debug)]
pub struct Cache<B: HydraBackend> {
    pub layers: Vec<Layer<B>>,
    pub shape: CacheShape,
}

/// One layer's keys and values. The tensors are moved out and back so that writing happens in place.
#[derive(Debug)]
pub struct Layer<B: HydraBackend> {
    keys: Option<Tensor<B, 3>>,
    values: Option<Tensor<B, 3>>,
}

impl<B: HydraBackend> Cache<B> {
    /// An empty cache for rows that begin at `starts`.
    pub fn new(config: &LlamaConfig, starts: Vec<usize>, capacity: usize, device: &B::Device) -> Self {
        let shape = CacheShape {
            len: 0,
            starts,
            heads: config.num_attention_heads,
            kv_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
        };
        let dims = [shape.starts.len(), capacity, shape.kv_heads * shape.head_dim];
        let layer =
            |_| Layer { keys: Some(Tensor::zeros(dims, device)), values: Some(Tensor::zeros(dims, device)) };
        Self { layers: (0..config.num_hidden_layers).map(layer).collect(), shape }
    }

    /// Position of the next token in each row.
    pub fn next_positions(&self) -> Vec<u32> {
        self.shape.starts.iter().map(|start| (self.shape.len - start) as u32).collect()
    }

    /// Drops all rows but those listed, in the order given.
    pub fn keep(&mut self, rows: &[usize]) {
        for layer in &mut self.layers {
            layer.update(|keys, values| {
                let index: Vec<i32> = rows.iter().map(|&row| row as i32).collect();
                let index =
                    Tensor::<B, 1, Int>::from_data(TensorData::new(index, [rows.len()]), &keys.device());
                (keys.select(0, index.clone()), values.select(0, index))
            });
        }
        self.shape.starts = rows.iter().map(|&row| self.shape.starts[row]).collect();
    }
}

impl<B: HydraBackend> Layer<B> {
    fn update(&mut self, f: impl FnOnce(Tensor<B, 3>, Tensor<B, 3>) -> (Tensor<B, 3>, Tensor<B, 3>)) {
        if let (Some(keys), Some(values)) = (self.keys.take(), self.values.take()) {
            let (keys, values) = f(keys, values);
            (self.keys, self.values) = (Some(keys), Some(values));
        }
    }

    /// Writes the keys and values, `[rows · tokens, kv_heads · d]`, of `tokens` more tokens per row at
    /// column `at`.
    pub fn write(&mut self, at: usize, new_keys: Tensor<B, 2>, new_values: Tensor<B, 2>) {
        self.update(|keys, values| {
            let [rows, _, width] = keys.dims();
            let tokens = new_keys.dims()[0] / rows;
            let place = [0..rows, at..at + tokens, 0..width];
            let shape = [rows, tokens, width];
            (
                keys.slice_assign(place.clone(), new_keys.reshape(shape)),
                values.slice_assign(place, new_values.reshape(shape)),
            )
        });
    }

    /// The attention of one new query per row over the first `shape.len` tokens.
    pub fn attend(&mut self, q: Tensor<B, 2>, shape: &CacheShape) -> Tensor<B, 2> {
        match (&self.keys, &self.values) {
            (Some(keys), Some(values)) => B::attend_cache(q, keys.clone(), values.clone(), shape),
            // `update` always puts the tensors back.
            _ => unreachable!("the cache's tensors are only moved out while they are written"),
        }
    }
}
