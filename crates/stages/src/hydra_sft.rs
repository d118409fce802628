//! `kind = "hydra-sft"`: see docs/stages/hydra-sft.md.

use data::Pair;
use model::HydraBackend;
use spec::stage::HydraSft;

use crate::context::{Context, Ending, finish};
use crate::error::StageError;
use crate::models::file;

pub fn run<B: HydraBackend>(config: &HydraSft, context: &mut Context<B>) -> Result<Ending, StageError> {
    let (decoder, tokenizer) = context.start(&config.model)?;
    let pairs = context.pairs(&config.data, &config.split, &tokenizer)?;
    let held_out: Vec<Pair> = context.prepared(&config.data)?.pairs("eval")?;
    let (pad, seed) = (tokenizer.pad_id(), context.seed());
    let outcome = train::hydra_sft(config, &pairs, &held_out, decoder, pad, seed, context.recorder)?;
    finish(outcome, |result| {
        result.decoder.save(context.out)?;
        result.reward_head.save(&context.out(file::REWARD_HEAD))?;
        tokenizer.save(context.out)?;
        Ok(serde_json::json!(result.summary))
    })
}
