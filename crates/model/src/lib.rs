//! Tensors: the decoder, its heads and adapters, the cache, sampling, and their files.
//!
//! Everything is generic over one trait, [`HydraBackend`], so that the concrete backend is named in one
//! place only. Models are plain structs of rank-2 tensors whose parameters have the names of the files of
//! the Hugging Face ecosystem ([`Parameters`]). Parameters live on the plain backend `B`; for a training
//! step a tracked copy on `Autodiff<B>` is made, which shares their storage ([`Parameters::tracked`]).
//!
//! Left to others: text and tokenizers (`data`), losses, optimisers and checkpoints (`train`).

mod attention;
mod autodiff;
mod backend;
mod batch;
mod cache;
mod config;
mod error;
mod flex;
mod folder;
mod generate;
mod heads;
mod hydra;
mod init;
mod kernels;
mod llama;
mod logprobs;
mod lora;
mod params;
mod plain;
mod sampling;
mod shard;
mod weights;

pub use attention::{Attention, Rope};
pub use backend::HydraBackend;
pub use batch::TokenBatch;
pub use cache::CacheShape;
pub use config::{Architecture, LlamaConfig};
pub use error::ModelError;
pub use folder::check_weights;
pub use generate::{Completion, generate};
pub use heads::Head;
pub use hydra::{Hydra, Role};
pub use llama::Llama;
pub use lora::{Lora, LoraConfig, LoraLayer, LoraPair, Projection};
pub use params::{Parameters, gradients};
pub use sampling::Sampling;
