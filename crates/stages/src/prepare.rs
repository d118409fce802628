//! `kind = "prepare"`: see docs/stages/prepare.md.

use data::Tokenizer;
use model::HydraBackend;
use spec::stage::Prepare;
use train::Outcome;

use crate::context::{Context, Ending};
use crate::error::StageError;

pub fn run<B: HydraBackend>(config: &Prepare, context: &mut Context<B>) -> Result<Ending, StageError> {
    let tokenizer = Tokenizer::load(context.model_folder(&config.model)?)?;
    let card = data::prepare(config, &tokenizer, context.seed(), context.out)?;
    Ok(Outcome::Finished(serde_json::json!(card)))
}
