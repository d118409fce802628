//! Keys and values of the tokens already read.

use burn::tensor::Tensor;

use crate::backend::HydraBackend;
use crate::config::LlamaConfig;
use crate::plain;

/// The part of a cache's shape that attention over it needs.
#[derive(Debug, Clone)]
pub struct CacheShape {
    /// Tokens of each row; they begin in column 0.
    pub lens: Vec<usize>,
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
    capacity: usize,
}

/// One layer's keys and values. The tensors are moved out and back so that writing happens in place.
#[derive(Debug)]
pub struct Layer<B: HydraBackend> {
    keys: Option<Tensor<B, 3>>,
    values: Option<Tensor<B, 3>>,
}

impl<B: HydraBackend> Cache<B> {
    /// A cache for rows of at most `capacity` tokens, none of them written yet.
    pub fn new(config: &LlamaConfig, rows: usize, capacity: usize, device: &B::Device) -> Self {
        let shape = CacheShape {
            lens: vec![0; rows],
            heads: config.num_attention_heads,
            kv_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
        };
        let dims = [rows, capacity, shape.kv_heads * shape.head_dim];
        let layer =
            |_| Layer { keys: Some(Tensor::zeros(dims, device)), values: Some(Tensor::zeros(dims, device)) };
        let layers = (0..config.num_hidden_layers).map(layer).collect();
        Self { layers, shape, capacity }
    }

    /// Makes room for `lens[row]` more tokens in each row; the cells for them, row after row.
    pub fn extend(&mut self, lens: &[usize]) -> Vec<usize> {
        let mut cells = Vec::with_capacity(lens.iter().sum());
        for (row, (len, more)) in self.shape.lens.iter_mut().zip(lens).enumerate() {
            let first = row * self.capacity + *len;
            cells.extend(first..first + more);
            *len += more;
        }
        cells
    }

    /// Drops all rows but those listed, in the order given.
    pub fn keep(&mut self, rows: &[usize]) {
        for layer in &mut self.layers {
            layer.update(|keys, values| {
                let index = plain::indices::<B>(rows.iter().copied(), &keys.device());
                (keys.select(0, index.clone()), values.select(0, index))
            });
        }
        self.shape.lens = rows.iter().map(|&row| self.shape.lens[row]).collect();
    }
}

impl<B: HydraBackend> Layer<B> {
    fn update(&mut self, f: impl FnOnce(Tensor<B, 3>, Tensor<B, 3>) -> (Tensor<B, 3>, Tensor<B, 3>)) {
        if let (Some(keys), Some(values)) = (self.keys.take(), self.values.take()) {
            let (keys, values) = f(keys, values);
            (self.keys, self.values) = (Some(keys), Some(values));
        }
    }

    /// Writes keys and values, `[n, kv_heads · d]`, to the cells that [`Cache::extend`] gave.
    pub fn write(&mut self, cells: &[usize], new_keys: Tensor<B, 2>, new_values: Tensor<B, 2>) {
        self.update(|keys, values| {
            (B::write_cache(keys, cells, new_keys), B::write_cache(values, cells, new_values))
        });
    }

    /// The attention of one new query per row over the row's tokens.
    pub fn attend(&self, q: Tensor<B, 2>, shape: &CacheShape) -> Tensor<B, 2> {
        match (&self.keys, &self.values) {
            (Some(keys), Some(values)) => B::attend_cache(q, keys.clone(), values.clone(), shape),
            // `update` always puts the tensors back.
            _ => unreachable!("the cache's tensors are only moved out while they are written"),
        }
    }
}
