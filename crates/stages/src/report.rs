//! `kind = "report"`: see docs/stages/report.md.

use model::HydraBackend;
use report::{Stage, Usage};
use spec::stage::Report;
use train::Outcome;

use crate::context::{Context, Ending};
use crate::error::StageError;

pub fn run<B: HydraBackend>(config: &Report, context: &mut Context<B>) -> Result<Ending, StageError> {
    let planned = &context.request.stage;
    let names = if config.stages.is_empty() { &planned.deps } else { &config.stages };
    // In the order in which they ran, whatever order they were named in.
    let mut stages = Vec::new();
    for name in context.request.ancestors.iter().filter(|name| names.contains(name)) {
        let input = context.input(name)?;
        let usage = context.request.usage.get(name);
        stages.push(Stage {
            name: name.clone(),
            kind: input.kind.clone(),
            dir: input.path.clone(),
            usage: usage.map(|u| Usage { seconds: u.seconds, peak_rss_bytes: u.peak_rss_bytes }),
        });
    }
    report::collect(&planned.name, &stages)?.write(context.out)?;
    Ok(Outcome::Finished(serde_json::json!({ "stages": stages.len() })))
}
