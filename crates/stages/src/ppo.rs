//! `kind = "ppo"`: see docs/stages/ppo.md.

use model::HydraBackend;
use spec::StageConfig;
use spec::stage::Ppo;
use train::{Probe, SpecialTokens};

use crate::context::{Context, Ending, finish};
use crate::error::StageError;
use crate::models::file;
use crate::reward_eval::{SCORES, ScoreRow};

pub fn run<B: HydraBackend>(config: &Ppo, context: &mut Context<B>) -> Result<Ending, StageError> {
    let start = context.scorer(&config.model)?;
    let prompts = context.prompts(&config.data, &config.split, &start.tokenizer)?;
    let probe = probe(config, context)?;
    let tokens = SpecialTokens { eos: start.tokenizer.eos_id(), pad: start.tokenizer.pad_id() };
    let outcome = train::ppo(
        config,
        &context.request.stage.lora,
        &prompts,
        start.decoder,
        start.head,
        probe,
        tokens,
        context.seed(),
        context.recorder,
    )?;
    finish(outcome, |result| {
        for folder in [file::ACTOR, file::CRITIC].map(|name| context.out(name)) {
            std::fs::create_dir_all(&folder).map_err(StageError::file("create", &folder))?;
        }
        result.actor.save(&context.out(file::ACTOR), &config.model)?;
        result.critic.save_classifier(&result.value_head, &context.out(file::CRITIC), &config.model)?;
        result.value_head.save(&context.out(file::VALUE_HEAD))?;
        Ok(serde_json::json!(result.summary))
    })
}

/// A row that a `reward-eval` stage scored with the same model, if there is one among the ancestors: PPO
/// must give it the same reward.
fn probe<B: HydraBackend>(config: &Ppo, context: &Context<B>) -> Result<Option<Probe>, StageError> {
    for (name, input) in &context.request.inputs {
        let StageConfig::RewardEval(eval) = &input.config else { continue };
        if eval.model != config.model {
            continue;
        }
        let pairs = context.prepared(&eval.data)?.pairs(&eval.split)?;
        let scores: Vec<ScoreRow> = context.rows(name, SCORES)?;
        let row = pairs.into_iter().zip(scores).find(|(pair, score)| pair.id == score.id);
        return Ok(row.map(|(pair, score)| Probe {
            prompt_ids: pair.prompt_ids,
            response_ids: pair.chosen_ids,
            reward: score.chosen,
        }));
    }
    Ok(None)
}
