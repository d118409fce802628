//! Tiny models whose weights follow from a formula, the same one as in `golden/llama_logits.py`.

use burn::backend::Flex;
use burn::tensor::{Tensor, TensorData};
use model::{Head, Hydra, Llama, LlamaConfig, Lora, LoraConfig, Parameters};

pub type B = Flex;

/// The golden script's configuration.
pub fn config(tie_word_embeddings: bool, head_dim: usize) -> LlamaConfig {
    LlamaConfig {
        vocab_size: 23,
        hidden_size: 16,
        intermediate_size: 24,
        num_hidden_layers: 2,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim,
        max_position_embeddings: 64,
        tie_word_embeddings,
        pad_token_id: Some(0),
        ..LlamaConfig::default()
    }
}

/// Parameters filled by the formula.
pub fn fill<P: Parameters<B>>(params: &P) -> P::On<B> {
    params.map(&mut |name, tensor| {
        let dims = tensor.dims();
        Tensor::from_data(TensorData::new(values(name, dims[0] * dims[1]), dims), &tensor.device())
    })
}

pub fn llama(config: &LlamaConfig) -> Llama<B> {
    fill(&Llama::init(config, 0, &Default::default()))
}

/// An adapter on all layers, its B not zero.
pub fn lora(config: &LlamaConfig) -> Lora<B> {
    let shape = LoraConfig::new::<&str>(3, 6.0, &[]).expect("a valid adapter");
    fill(&Lora::init(config, &shape, 0, &Default::default()))
}

pub fn head(config: &LlamaConfig) -> Head<B> {
    fill(&Head::zeros(config.hidden_size, &Default::default()))
}

/// Four different models over one decoder.
pub fn hydra() -> Hydra<B> {
    let config = config(true, 4);
    let device = Default::default();
    let shape = LoraConfig::new(2, 4.0, &["q_proj", "v_proj", "down_proj"]).expect("valid");
    let critic = Lora::<B>::init(&config, &shape, 9, &device).map(&mut |name, tensor| {
        let b = values(&format!("critic {name}"), tensor.dims().iter().product());
        Tensor::from_data(TensorData::new(b, tensor.dims()), &device)
    });
    Hydra {
        decoder: llama(&config),
        reward_head: head(&config),
        actor: lora(&config),
        critic,
        value_head: Head::init(config.hidden_size, 0.3, 4, &device),
    }
}

fn values(name: &str, count: usize) -> Vec<f32> {
    let crc = crc32(name.as_bytes());
    let value = |i: usize| {
        let mut x = (i as u32).wrapping_mul(2_654_435_761).wrapping_add(crc);
        x = (x ^ (x >> 16)).wrapping_mul(0x045D_9F3B);
        x = (x ^ (x >> 16)).wrapping_mul(0x045D_9F3B);
        x ^= x >> 16;
        let unit = f64::from(x >> 8) / f64::from(1 << 24) - 0.5;
        if name.ends_with("norm.weight") { (1.0 + 0.4 * unit) as f32 } else { unit as f32 }
    };
    (0..count).map(value).collect()
}

/// CRC-32 as zlib has it.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(
            crc ^ u32::from(byte),
            |crc, _| {
                if crc & 1 == 1 { 0xEDB8_8320 ^ (crc >> 1) } else { crc >> 1 }
            },
        )
    })
}

pub fn floats<const D: usize, C: model::HydraBackend>(tensor: Tensor<C, D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// Panics when two lists differ by more than `tolerance` anywhere.
#[track_caller]
pub fn assert_close(found: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: length");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= tolerance,
            "{what}[{index}]: {found} is not within {tolerance} of {expected}"
        );
    }
}
