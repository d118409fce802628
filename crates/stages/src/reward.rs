//! `kind = "reward"`: see docs/stages/reward.md.

use model::HydraBackend;
use spec::stage::Reward;

use crate::context::{Context, Ending, finish};
use crate::error::StageError;

pub fn run<B: HydraBackend>(config: &Reward, context: &mut Context<B>) -> Result<Ending, StageError> {
    let (decoder, tokenizer) = context.start(&config.model)?;
    let pairs = context.pairs(&config.data, &config.split, &tokenizer)?;
    let outcome =
        train::reward(config, &pairs, decoder, tokenizer.pad_id(), context.seed(), context.recorder)?;
    finish(outcome, |result| {
        result.decoder.save_classifier(&result.head, context.out)?;
        tokenizer.save(context.out)?;
        Ok(serde_json::json!(result.summary))
    })
}
