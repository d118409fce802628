//! `kind = "reward-eval"`: see docs/stages/reward-eval.md.

use std::fmt::Write;

use model::HydraBackend;
use serde::{Deserialize, Serialize};
use spec::stage::RewardEval;
use train::Outcome;

use crate::context::{Context, Ending};
use crate::error::StageError;

/// The scores of every pair, in the order of the split.
pub const SCORES: &str = "scores.jsonl";

/// One line of [`SCORES`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScoreRow {
    /// The pair's id.
    pub id: String,
    pub chosen: f32,
    pub rejected: f32,
}

pub fn run<B: HydraBackend>(config: &RewardEval, context: &mut Context<B>) -> Result<Ending, StageError> {
    let scorer = context.scorer(&config.model)?;
    let pairs = context.pairs(&config.data, &config.split, &scorer.tokenizer)?;
    let mut responses: Vec<(&[u32], &[u32])> = Vec::with_capacity(2 * pairs.len());
    for pair in &pairs {
        responses.push((&pair.prompt_ids, &pair.chosen_ids));
        responses.push((&pair.prompt_ids, &pair.rejected_ids));
    }
    let pad = scorer.tokenizer.pad_id();
    let scores = train::score(&scorer.decoder, &scorer.head, &responses, config.batch_size, pad)?;

    let mut lines = String::new();
    let mut margins = Vec::with_capacity(pairs.len());
    for (pair, score) in pairs.iter().zip(scores.chunks_exact(2)) {
        let row = ScoreRow { id: pair.id.clone(), chosen: score[0], rejected: score[1] };
        // A row of strings and numbers is always valid JSON; writing to a string cannot fail.
        _ = writeln!(lines, "{}", serde_json::json!(row));
        margins.push((f64::from(score[0]), f64::from(score[1])));
    }
    let path = context.out(SCORES);
    std::fs::write(&path, lines).map_err(StageError::file("write", &path))?;
    let summary = eval::reward_stats::summarise(&margins, config.min_accuracy)?;
    if !summary.passed {
        let (accuracy, min_accuracy) = (summary.accuracy, config.min_accuracy);
        return Err(StageError::RewardGate { accuracy, min_accuracy });
    }
    Ok(Outcome::Finished(serde_json::json!(summary)))
}
