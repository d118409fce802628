//! From the name of a stage to the model in its result.

use std::path::PathBuf;

use data::Tokenizer;
use model::{Head, HydraBackend, Llama, Lora};
use spec::StageConfig;

use crate::context::Context;
use crate::error::StageError;

/// Files that a stage adds to the Hugging Face folder form.
pub mod file {
    /// `hydra-sft`: the scalar head beside the language model.
    pub const REWARD_HEAD: &str = "reward_head.safetensors";
    /// `ppo`: adapters in PEFT's form.
    pub const ACTOR: &str = "actor";
    pub const CRITIC: &str = "critic";
    pub const VALUE_HEAD: &str = "value_head.safetensors";
}

/// A model that answers.
pub struct Policy<B: HydraBackend> {
    pub decoder: Llama<B>,
    pub adapter: Option<Lora<B>>,
    pub tokenizer: Tokenizer,
}

/// A model that scores.
pub struct Scorer<B: HydraBackend> {
    pub decoder: Llama<B>,
    pub head: Head<B>,
    pub tokenizer: Tokenizer,
}

impl<B: HydraBackend> Context<'_, B> {
    /// The Hugging Face folder that a stage starts from: the stage `name`, or `[model] base` when empty.
    pub fn model_folder(&self, name: &str) -> Result<PathBuf, StageError> {
        match name {
            "" => Ok(PathBuf::from(&self.request.stage.base_model)),
            name => Ok(self.input(name)?.path.clone()),
        }
    }

    /// The language model that a training stage starts from.
    pub fn start(&self, name: &str) -> Result<(Llama<B>, Tokenizer), StageError> {
        let folder = self.model_folder(name)?;
        let tokenizer = Tokenizer::load(&folder)?;
        Ok((Llama::load(&folder, self.device)?, tokenizer))
    }

    /// The model of stage `name` that answers prompts; for a `ppo` stage its base with the actor's adapter.
    pub fn policy(&self, name: &str) -> Result<Policy<B>, StageError> {
        let input = self.input(name)?;
        let StageConfig::Ppo(ppo) = &input.config else {
            let (decoder, tokenizer) = self.start(name)?;
            return Ok(Policy { decoder, adapter: None, tokenizer });
        };
        let (decoder, tokenizer) = self.start(&ppo.model)?;
        let adapter = Lora::load(&input.path.join(file::ACTOR), decoder.config(), self.device)?;
        Ok(Policy { decoder, adapter: Some(adapter), tokenizer })
    }

    /// The reward model in the result of a `reward` or `hydra-sft` stage.
    pub fn scorer(&self, name: &str) -> Result<Scorer<B>, StageError> {
        let input = self.input(name)?;
        let tokenizer = Tokenizer::load(&input.path)?;
        let (decoder, head) = if let StageConfig::Reward(_) = input.config {
            Llama::load_classifier(&input.path, self.device)?
        } else {
            let decoder = Llama::load(&input.path, self.device)?;
            let width = decoder.config().hidden_size;
            let head = Head::load(&input.path.join(file::REWARD_HEAD), width, self.device)?;
            (decoder, head)
        };
        Ok(Scorer { decoder, head, tokenizer })
    }
}
