//! `kind = "generate"`: see docs/stages/generate.md.

use std::collections::BTreeMap;
use std::fs;

use data::{Prompt, source::synthetic_qa};
use eval::{Answer, AnswerRow};
use model::{HydraBackend, Sampling};
use spec::stage::Generate;
use train::{Outcome, Recorder as _};

use crate::context::{Context, Ending};
use crate::error::StageError;
use crate::models::Policy;

/// Every prompt with every model's answer.
pub const ANSWERS: &str = "answers.jsonl";
/// In a checkpoint: answers so far, by model, in the order of the prompts.
const PARTIAL: &str = "partial.json";

type Answers = BTreeMap<String, Vec<Answer>>;

pub fn run<B: HydraBackend>(config: &Generate, context: &mut Context<B>) -> Result<Ending, StageError> {
    let mut answers = resume(context)?;
    let mut prompts: Vec<Prompt> = Vec::new();
    let mut batches_done = 0;
    for name in &config.models {
        let policy = context.policy(name)?;
        prompts = context.prompts(&config.data, &config.split, &policy.tokenizer)?;
        if config.max_samples > 0 {
            prompts.truncate(config.max_samples);
        }
        let total = prompts.len().div_ceil(config.batch_size) * config.models.len();
        for batch in prompts.chunks(config.batch_size) {
            batches_done += 1;
            let made = answers.entry(name.clone()).or_default();
            if made.len() >= batch_end(&prompts, batch) {
                continue;
            }
            made.extend(answer(config, context, &policy, batch)?);
            let step = batches_done as u64;
            context.recorder.progress(step, total as u64, "batch", name);
            context.recorder.save(step, |dir| {
                let text = serde_json::to_vec(&answers).map_err(std::io::Error::other);
                let path = dir.join(PARTIAL);
                text.and_then(|text| fs::write(&path, text)).map_err(StageError::file("write", &path))
            })?;
            if context.recorder.should_stop() {
                return Ok(Outcome::Interrupted { step });
            }
        }
    }
    let rows = join(&prompts, &answers);
    eval::answers::write(&context.out(ANSWERS), &rows)?;
    Ok(Outcome::Finished(serde_json::json!(eval::answers::summarise(&rows))))
}

/// How many prompts are answered once `batch`, a slice of `prompts`, is.
fn batch_end(prompts: &[Prompt], batch: &[Prompt]) -> usize {
    prompts.iter().position(|prompt| prompt.id == batch[0].id).unwrap_or(0) + batch.len()
}

fn resume<B: HydraBackend>(context: &Context<B>) -> Result<Answers, StageError> {
    let Some(folder) = &context.request.resume_from else { return Ok(Answers::new()) };
    let path = folder.join(PARTIAL);
    let text = fs::read(&path).map_err(StageError::file("read", &path))?;
    serde_json::from_slice(&text).map_err(|error| StageError::Artifact { path, problem: error.to_string() })
}

/// Each prompt draws from a stream of its own, the same for every model, so that models differ by what
/// they know and not by the dice.
fn answer<B: HydraBackend>(
    config: &Generate,
    context: &Context<B>,
    policy: &Policy<B>,
    batch: &[Prompt],
) -> Result<Vec<Answer>, StageError> {
    let sampling = Sampling {
        max_new_tokens: config.max_new_tokens,
        temperature: config.temperature,
        top_k: config.top_k,
        top_p: config.top_p,
        stop_ids: vec![policy.tokenizer.eos_id()],
    };
    let ids: Vec<&[u32]> = batch.iter().map(|prompt| prompt.prompt_ids.as_slice()).collect();
    let stream = |prompt: &Prompt| data::rng(context.seed(), &["answer".into(), (&prompt.id).into()]);
    let mut streams: Vec<_> = batch.iter().map(stream).collect();
    let completions =
        model::generate(&policy.decoder, policy.adapter.as_ref(), &ids, &sampling, &mut streams);
    batch
        .iter()
        .zip(completions)
        .map(|(prompt, completion)| {
            let text = policy.tokenizer.decode(&completion.ids)?;
            let correct = prompt.meta.as_ref().map(|meta| synthetic_qa::check(meta, &text).correct);
            Ok(Answer { tokens: completion.ids.len(), finished: completion.finished, correct, text })
        })
        .collect()
}

fn join(prompts: &[Prompt], answers: &Answers) -> Vec<AnswerRow> {
    let row = |(index, prompt): (usize, &Prompt)| AnswerRow {
        id: prompt.id.clone(),
        prompt: prompt.prompt.clone(),
        reference: prompt.reference.clone(),
        answers: answers
            .iter()
            .filter_map(|(model, made)| Some((model.clone(), made.get(index)?.clone())))
            .collect(),
    };
    prompts.iter().enumerate().map(row).collect()
}
