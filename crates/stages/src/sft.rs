//! `kind = "sft"`: see docs/stages/sft.md.

use model::HydraBackend;
use spec::stage::Sft;

use crate::context::{Context, Ending, finish};
use crate::error::StageError;

pub fn run<B: HydraBackend>(config: &Sft, context: &mut Context<B>) -> Result<Ending, StageError> {
    let (decoder, tokenizer) = context.start(&config.model)?;
    let pairs = context.pairs(&config.data, &config.split, &tokenizer)?;
    let outcome = train::sft(config, &pairs, decoder, tokenizer.pad_id(), context.seed(), context.recorder)?;
    finish(outcome, |result| {
        result.decoder.save(context.out)?;
        tokenizer.save(context.out)?;
        Ok(serde_json::json!(result.summary))
    })
}
