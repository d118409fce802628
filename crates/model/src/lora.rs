//! Low-rank adapters (Hu et al., arXiv 2106.09685) in PEFT's layout.

use std::fs;
use std::path::Path;

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::backend::HydraBackend;
use crate::config::LlamaConfig;
use crate::error::ModelError;
use crate::heads::Head;
use crate::params::Parameters;
use crate::{init, weights};

const WEIGHTS: &str = "adapter_model.safetensors";

/// PEFT's name of a sequence classifier's head.
const HEAD: &str = "base_model.model.score.weight";

/// A linear layer of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Projection {
    /// Queries.
    Q,
    /// Keys.
    K,
    /// Values.
    V,
    /// The attention's output.
    O,
    /// The gate of the feed-forward layer.
    Gate,
    /// What the gate multiplies.
    Up,
    /// The feed-forward layer's output.
    Down,
}

impl Projection {
    /// All of them, in the order in which a model keeps them.
    pub const ALL: [Self; 7] = [Self::Q, Self::K, Self::V, Self::O, Self::Gate, Self::Up, Self::Down];

    /// Path within a block, as in the weights' names.
    pub fn path(self) -> &'static str {
        match self {
            Self::Q => "self_attn.q_proj",
            Self::K => "self_attn.k_proj",
            Self::V => "self_attn.v_proj",
            Self::O => "self_attn.o_proj",
            Self::Gate => "mlp.gate_proj",
            Self::Up => "mlp.up_proj",
            Self::Down => "mlp.down_proj",
        }
    }

    /// Last part of the path, as PEFT's `target_modules` has it: `q_proj`.
    pub fn name(self) -> &'static str {
        self.path().rsplit('.').next().unwrap_or_default()
    }

    /// `[out, in]` of its weight.
    pub fn shape(self, config: &LlamaConfig) -> [usize; 2] {
        let hidden = config.hidden_size;
        let queries = config.num_attention_heads * config.head_dim;
        let keys = config.num_key_value_heads * config.head_dim;
        match self {
            Self::Q => [queries, hidden],
            Self::K | Self::V => [keys, hidden],
            Self::O => [hidden, queries],
            Self::Gate | Self::Up => [config.intermediate_size, hidden],
            Self::Down => [hidden, config.intermediate_size],
        }
    }
}

/// Shape of an adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraConfig {
    /// Rank.
    pub r: usize,
    /// The update is scaled by `lora_alpha / r`.
    pub lora_alpha: f64,
    /// The linear layers that carry it, without repetition and in order.
    pub targets: Vec<Projection>,
}

impl LoraConfig {
    /// An adapter on the layers named as PEFT names them; no names at all mean every linear layer of the
    /// blocks (PEFT's `all-linear`).
    pub fn new<S: AsRef<str>>(r: usize, lora_alpha: f64, names: &[S]) -> Result<Self, ModelError> {
        if r == 0 || !lora_alpha.is_finite() || lora_alpha <= 0.0 {
            let message = format!("rank {r} and lora_alpha {lora_alpha} must both be above 0");
            return Err(ModelError::Adapter { message });
        }
        let known = |name: &str| Projection::ALL.into_iter().find(|p| p.name() == name || p.path() == name);
        let mut targets = Vec::new();
        for name in names.iter().map(AsRef::as_ref) {
            let Some(target) = known(name) else {
                let all = Projection::ALL.map(Projection::name).join(", ");
                let message = format!("no linear layer is called `{name}`; there are {all}");
                return Err(ModelError::Adapter { message });
            };
            targets.push(target);
        }
        if targets.is_empty() {
            targets.extend(Projection::ALL);
        }
        targets.sort_unstable();
        targets.dedup();
        Ok(Self { r, lora_alpha, targets })
    }

    /// Factor of the update.
    pub fn scale(&self) -> f64 {
        self.lora_alpha / self.r as f64
    }
}

/// An adapter for every block of a decoder.
#[derive(Debug, Clone)]
pub struct Lora<B: HydraBackend> {
    config: LoraConfig,
    layers: Vec<LoraLayer<B>>,
}

/// The adapter's part in one block.
#[derive(Debug, Clone)]
pub struct LoraLayer<B: HydraBackend> {
    pairs: [Option<LoraPair<B>>; 7],
}

impl<B: HydraBackend> LoraLayer<B> {
    /// The pair of a linear layer, when it carries one.
    pub fn pair(&self, which: Projection) -> Option<&LoraPair<B>> {
        self.pairs[which as usize].as_ref()
    }
}

/// `ΔW = scale · B · A`.
#[derive(Debug, Clone)]
pub struct LoraPair<B: HydraBackend> {
    /// `[r, in]`
    a: Tensor<B, 2>,
    /// `[out, r]`
    b: Tensor<B, 2>,
    scale: f64,
}

impl<B: HydraBackend> LoraPair<B> {
    /// What the pair adds to the layer's output: `[n, in]` to `[n, out]`.
    pub fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        // The scale goes where the tensor is smallest.
        B::project(B::project(x, self.a.clone()) * self.scale, self.b.clone())
    }

    /// What the pair adds to the layer's weight, `[out, in]`.
    pub fn product(&self) -> Tensor<B, 2> {
        self.b.clone().matmul(self.a.clone()) * self.scale
    }
}

impl<B: HydraBackend> Lora<B> {
    /// A fresh adapter that changes nothing yet: A uniform in ±1/√in (PEFT's Kaiming-uniform with a = √5),
    /// B zero.
    pub fn init(model: &LlamaConfig, config: &LoraConfig, seed: u64, device: &B::Device) -> Self {
        Self::zeros(model, config, device).map(&mut |name, tensor| {
            if name.contains(".lora_A.") {
                let bound = (tensor.dims()[1] as f64).powf(-0.5);
                init::uniform(seed, name, tensor.dims(), bound, device)
            } else {
                tensor.clone()
            }
        })
    }

    fn zeros(model: &LlamaConfig, config: &LoraConfig, device: &B::Device) -> Self {
        let layer = |_| LoraLayer {
            pairs: Projection::ALL.map(|which| {
                let [outputs, inputs] = which.shape(model);
                config.targets.contains(&which).then(|| LoraPair {
                    a: Tensor::zeros([config.r, inputs], device),
                    b: Tensor::zeros([outputs, config.r], device),
                    scale: config.scale(),
                })
            }),
        };
        let layers = (0..model.num_hidden_layers).map(layer).collect();
        Self { config: config.clone(), layers }
    }

    /// The adapter's shape.
    pub fn config(&self) -> &LoraConfig {
        &self.config
    }

    /// The part that belongs to a block.
    pub fn layer(&self, index: usize) -> &LoraLayer<B> {
        &self.layers[index]
    }

    /// Writes an adapter that predicts tokens: `adapter_config.json` and `adapter_model.safetensors` into an
    /// existing folder. `base` is what PEFT shows as the base model's name or path.
    pub fn save(&self, folder: &Path, base: &str) -> Result<(), ModelError> {
        self.write_config(folder, base, "CAUSAL_LM")?;
        weights::save(&folder.join(WEIGHTS), self)
    }

    /// Writes an adapter that a scalar head reads, as PEFT has it: the head goes into the same file.
    pub fn save_classifier(&self, head: &Head<B>, folder: &Path, base: &str) -> Result<(), ModelError> {
        self.write_config(folder, base, "SEQ_CLS")?;
        weights::save(&folder.join(WEIGHTS), &WithHead(self.clone(), head.clone()))
    }

    fn write_config(&self, folder: &Path, base: &str, task: &str) -> Result<(), ModelError> {
        let file = AdapterFile {
            peft_type: "LORA".into(),
            task_type: Some(task.into()),
            base_model_name_or_path: Some(base.into()),
            r: self.config.r,
            lora_alpha: self.config.lora_alpha,
            lora_dropout: 0.0,
            target_modules: self.config.targets.iter().map(|t| t.name().to_owned()).collect(),
            bias: "none".into(),
            fan_in_fan_out: false,
            init_lora_weights: true,
            inference_mode: true,
            use_rslora: false,
            use_dora: false,
            rank_pattern: Map::new(),
            alpha_pattern: Map::new(),
        };
        weights::write_json(&folder.join("adapter_config.json"), &file)
    }

    /// Reads an adapter for a model of the given shape; anything that does not fit is an error. A head in the
    /// same file is left alone.
    pub fn load(folder: &Path, model: &LlamaConfig, device: &B::Device) -> Result<Self, ModelError> {
        let path = folder.join("adapter_config.json");
        let text = fs::read(&path).map_err(|source| ModelError::File {
            action: "read",
            path: path.clone(),
            source,
        })?;
        let file: AdapterFile = serde_json::from_slice(&text)
            .map_err(|source| ModelError::Json { path: path.clone(), source })?;
        let problems = file.problems();
        if !problems.is_empty() {
            return Err(ModelError::Config { path, problems });
        }
        let config = LoraConfig::new(file.r, file.lora_alpha, &file.target_modules)?;
        let skeleton = Self::zeros(model, &config, device);
        weights::load(&folder.join(WEIGHTS), &skeleton, device, |name| name == HEAD)
    }
}

impl<B: HydraBackend> Parameters<B> for Lora<B> {
    type On<C: HydraBackend> = Lora<C>;

    fn visit<'a>(&'a self, f: &mut dyn FnMut(&str, &'a Tensor<B, 2>)) {
        for (index, layer) in self.layers.iter().enumerate() {
            for which in Projection::ALL {
                if let Some(pair) = layer.pair(which) {
                    f(&name(index, which, 'A'), &pair.a);
                    f(&name(index, which, 'B'), &pair.b);
                }
            }
        }
    }

    fn map<C: HydraBackend>(&self, f: &mut dyn FnMut(&str, &Tensor<B, 2>) -> Tensor<C, 2>) -> Lora<C> {
        let layers = self.layers.iter().enumerate().map(|(index, layer)| LoraLayer {
            pairs: Projection::ALL.map(|which| {
                layer.pair(which).map(|pair| LoraPair {
                    a: f(&name(index, which, 'A'), &pair.a),
                    b: f(&name(index, which, 'B'), &pair.b),
                    scale: pair.scale,
                })
            }),
        });
        Lora { config: self.config.clone(), layers: layers.collect() }
    }
}

/// An adapter and its head in one file.
struct WithHead<B: HydraBackend>(Lora<B>, Head<B>);

impl<B: HydraBackend> Parameters<B> for WithHead<B> {
    type On<C: HydraBackend> = WithHead<C>;

    fn visit<'a>(&'a self, f: &mut dyn FnMut(&str, &'a Tensor<B, 2>)) {
        self.0.visit(f);
        self.1.visit(&mut |_, tensor| f(HEAD, tensor));
    }

    fn map<C: HydraBackend>(&self, f: &mut dyn FnMut(&str, &Tensor<B, 2>) -> Tensor<C, 2>) -> WithHead<C> {
        let adapter = self.0.map(f);
        WithHead(adapter, self.1.map(&mut |_, tensor| f(HEAD, tensor)))
    }
}

/// PEFT's name of a tensor of the adapter.
fn name(layer: usize, which: Projection, part: char) -> String {
    format!("base_model.model.model.layers.{layer}.{}.lora_{part}.weight", which.path())
}

/// The fields of `adapter_config.json` that are written, and that matter when it is read.
#[derive(Debug, Serialize, Deserialize)]
struct AdapterFile {
    peft_type: String,
    #[serde(default)]
    task_type: Option<String>,
    #[serde(default)]
    base_model_name_or_path: Option<String>,
    r: usize,
    lora_alpha: f64,
    #[serde(default)]
    lora_dropout: f64,
    target_modules: Vec<String>,
    #[serde(default = "none")]
    bias: String,
    #[serde(default)]
    fan_in_fan_out: bool,
    #[serde(default = "yes")]
    init_lora_weights: bool,
    #[serde(default)]
    inference_mode: bool,
    #[serde(default)]
    use_rslora: bool,
    #[serde(default)]
    use_dora: bool,
    /// Ranks and alphas of single layers; read only to refuse them.
    #[serde(default, skip_serializing)]
    rank_pattern: Map<String, Value>,
    #[serde(default, skip_serializing)]
    alpha_pattern: Map<String, Value>,
}

fn none() -> String {
    "none".into()
}

fn yes() -> bool {
    true
}

impl AdapterFile {
    /// Kinds of adapter that would silently compute something else.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.peft_type != "LORA" {
            problems.push(format!("peft_type is {:?}, only \"LORA\" is supported", self.peft_type));
        }
        if self.bias != "none" {
            problems.push(format!("bias is {:?}, only \"none\" is supported", self.bias));
        }
        for (field, set) in [
            ("use_rslora", self.use_rslora),
            ("use_dora", self.use_dora),
            ("fan_in_fan_out", self.fan_in_fan_out),
            ("rank_pattern", !self.rank_pattern.is_empty()),
            ("alpha_pattern", !self.alpha_pattern.is_empty()),
        ] {
            if set {
                problems.push(format!("{field} is not supported"));
            }
        }
        problems
    }
}
