//! `kind = "rouge"`: see docs/stages/rouge.md.

use model::HydraBackend;
use spec::stage::Rouge;
use train::Outcome;

use crate::context::{Context, Ending};
use crate::error::StageError;
use crate::generate::ANSWERS;

pub fn run<B: HydraBackend>(config: &Rouge, context: &mut Context<B>) -> Result<Ending, StageError> {
    let answers = eval::answers::read(&context.input(&config.completions)?.path.join(ANSWERS))?;
    let summary = eval::rouge::summarise(&answers, config.use_stemmer)?;
    Ok(Outcome::Finished(serde_json::json!(summary)))
}
