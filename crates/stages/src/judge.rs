//! `kind = "judge"`: see docs/stages/judge.md.

use eval::judge::{OpenAi, Outcome as Judged, Request, Sink, reward_model};
use eval::{AnswerRow, EvalError, Journal, Judgement, Order, Tournament};
use model::HydraBackend;
use spec::StageConfig;
use spec::stage::{Judge, Provider};
use train::{Outcome, Recorder as _};

use crate::context::{Context, Ending};
use crate::error::StageError;
use crate::generate::ANSWERS;
use crate::recorder::Recorder;

/// Every judgement, sorted.
const JUDGEMENTS: &str = "judgements.jsonl";
/// In checkpoint 0: judgements in the order in which they came.
const JOURNAL: &str = "journal.jsonl";
/// Answers scored at once.
const BATCH: usize = 32;

pub fn run<B: HydraBackend>(config: &Judge, context: &mut Context<B>) -> Result<Ending, StageError> {
    let rows = eval::answers::read(&context.input(&config.completions)?.path.join(ANSWERS))?;
    let models = compared(config, context)?;
    let (provider, orders): (&str, &[Order]) = match config.provider {
        Provider::RewardModel => ("reward-model", &[Order::Ab]),
        Provider::Openai => ("openai", &[Order::Ab, Order::Ba]),
    };
    let tournament = Tournament::new(&rows, &models, orders)?;
    let judgements = match config.provider {
        Provider::RewardModel => Some(by_reward(config, context, &rows, &tournament)?),
        Provider::Openai => by_endpoint(config, context, &rows, &tournament)?,
    };
    let Some(judgements) = judgements else { return Ok(Outcome::Interrupted { step: 0 }) };
    eval::judgement::write(&context.out(JUDGEMENTS), &judgements)?;
    let seed = context.seed();
    let summary = tournament.summarise(&judgements, provider, &config.model, config.min_coverage, seed)?;
    summary.require_coverage()?;
    Ok(Outcome::Finished(serde_json::json!(summary)))
}

/// The models of the `generate` stage, in its order.
fn compared<B: HydraBackend>(config: &Judge, context: &Context<B>) -> Result<Vec<String>, StageError> {
    let input = context.input(&config.completions)?;
    match &input.config {
        StageConfig::Generate(generate) => Ok(generate.models.clone()),
        _ => Err(StageError::Artifact {
            path: input.path.clone(),
            problem: format!("`{}` is no `generate` stage", config.completions),
        }),
    }
}

/// Scores every answer once, then compares.
fn by_reward<B: HydraBackend>(
    config: &Judge,
    context: &mut Context<B>,
    rows: &[AnswerRow],
    tournament: &Tournament,
) -> Result<Vec<Judgement>, StageError> {
    let scorer = context.scorer(&config.model)?;
    let encode = |text: &str, response: bool| {
        if response { scorer.tokenizer.encode_response(text) } else { scorer.tokenizer.encode_prompt(text) }
    };
    let mut texts = Vec::new();
    for row in rows {
        let prompt = encode(&row.prompt, false)?;
        for model in tournament.models() {
            // `Tournament::new` has checked that every row has every model.
            texts.push((prompt.clone(), encode(&row.answers[model].text, true)?));
        }
    }
    let pairs: Vec<(&[u32], &[u32])> =
        texts.iter().map(|(prompt, answer)| (&prompt[..], &answer[..])).collect();
    let scores = train::score(&scorer.decoder, &scorer.head, &pairs, BATCH, scorer.tokenizer.pad_id())?;
    let mut by_answer = std::collections::HashMap::new();
    for (row, scores) in rows.iter().zip(scores.chunks(tournament.models().len())) {
        for (model, score) in tournament.models().iter().zip(scores) {
            by_answer.insert((row.id.as_str(), model.as_str()), f64::from(*score));
        }
    }
    let judge = |request: Request| {
        let score = |model: &str| by_answer[&(request.key.id.as_str(), model)];
        let (score_a, score_b) = (score(&request.key.model_a), score(&request.key.model_b));
        Ok(reward_model::judge(&request, score_a, score_b)?)
    };
    tournament.requests(rows).into_iter().map(judge).collect()
}

/// Asks for what the journal has no verdict on; `None` when asked to stop on the way.
fn by_endpoint<B: HydraBackend>(
    config: &Judge,
    context: &mut Context<B>,
    rows: &[AnswerRow],
    tournament: &Tournament,
) -> Result<Option<Vec<Judgement>>, StageError> {
    let earlier = context.request.resume_from.as_ref().map(|folder| folder.join(JOURNAL));
    let folder = context.recorder.save_growing(0, |dir| {
        let path = dir.join(JOURNAL);
        let copied = match earlier.filter(|journal| journal.exists()) {
            Some(journal) => std::fs::copy(journal, &path).map(drop),
            None => std::fs::write(&path, ""),
        };
        copied.map_err(StageError::file("write", &path))
    })?;
    let mut journal = Journal::open(&folder.join(JOURNAL))?;
    let judge = OpenAi::new(config, |name| std::env::var(name).ok())?;
    let requests = tournament.requests(rows);
    let pending = judge.pending(&requests, &journal)?;
    let spent: f64 = journal.latest().map(|j| judge.cost_usd(j.prompt_tokens, j.completion_tokens)).sum();
    let done = requests.len() - pending.len();
    let mut keeper =
        Keeper { journal: &mut journal, recorder: context.recorder, done, total: requests.len() };
    match judge.judge_blocking(&pending, spent, &mut keeper)? {
        Judged::Interrupted => Ok(None),
        Judged::Finished => {
            let keys: std::collections::HashSet<_> = tournament.keys().into_iter().collect();
            let wanted = journal.latest().filter(|judgement| keys.contains(&judgement.key()));
            Ok(Some(wanted.cloned().collect()))
        }
    }
}

/// Keeps judgements in the journal and tells how far they are.
struct Keeper<'a> {
    journal: &'a mut Journal,
    recorder: &'a mut Recorder,
    done: usize,
    total: usize,
}

impl Sink for Keeper<'_> {
    fn judged(&mut self, judgement: Judgement) -> Result<(), EvalError> {
        let message = judgement.state.name();
        self.journal.append(judgement)?;
        self.done += 1;
        self.recorder.progress(self.done as u64, self.total as u64, "judgement", message);
        Ok(())
    }

    fn should_stop(&self) -> bool {
        self.recorder.should_stop()
    }
}
