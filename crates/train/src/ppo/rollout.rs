//! The experience of one update: responses, their log-probabilities, rewards, values and advantages.
//!
//! Everything per token is a plain vector over the response's own tokens, EOS included, so that padding
//! can play no part in rewards, advantages or metrics.

use data::Prompt;
use model::{HydraBackend, Role, Sampling, TokenBatch};
use rand_chacha::ChaCha8Rng;
use spec::stage::Ppo;

use super::SpecialTokens;
use super::policy::Policy;
use crate::batching::{numbers, pick};
use crate::{estimate, gae, token_rewards, whiten};

/// One response and what is known of it. Vectors have one entry per response token.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rollout {
    /// Prompt and response.
    pub ids: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Whether the response ended by itself.
    pub finished: bool,
    /// Score of the reward model, unclipped.
    pub score: f32,
    /// The score as it enters the reward: clipped, less the penalty for a missing EOS.
    pub shaped_score: f32,
    /// Log-probabilities under the actor that wrote it, nats.
    pub logprobs: Vec<f32>,
    /// The same under the reference.
    pub ref_logprobs: Vec<f32>,
    /// KL estimates, nats.
    pub kl: Vec<f32>,
    /// The critic's values.
    pub values: Vec<f32>,
    /// KL penalties, and the score at the last token.
    pub rewards: Vec<f32>,
    /// Advantages.
    pub advantages: Vec<f32>,
    /// Returns: advantages before whitening, plus values.
    pub returns: Vec<f32>,
}

impl Rollout {
    /// Tokens of the response.
    pub fn len(&self) -> usize {
        self.ids.len() - self.prompt
    }

    /// The response.
    pub fn response(&self) -> &[u32] {
        &self.ids[self.prompt..]
    }
}

/// Where a batch's actions are: for each response token the index into `[rows · cols]` of the token before
/// it, whose hidden state predicts it.
pub fn before_actions(batch: &TokenBatch, rows: &[&Rollout]) -> Vec<usize> {
    let row = |(index, rollout): (usize, &&Rollout)| {
        (rollout.prompt..rollout.ids.len()).map(move |token| batch.flat(index, token - 1)).collect::<Vec<_>>()
    };
    rows.iter().enumerate().flat_map(row).collect()
}

/// All response tokens of the rows, one after the other.
pub fn actions(rows: &[&Rollout]) -> Vec<u32> {
    rows.iter().flat_map(|rollout| rollout.response().iter().copied()).collect()
}

/// Samples one response per prompt. Each draws from a stream named by update, place and prompt.
pub fn generate<B: HydraBackend>(
    config: &Ppo,
    policy: &Policy<B>,
    prompts: &[&Prompt],
    tokens: SpecialTokens,
    seed: u64,
    update: u64,
) -> Vec<Rollout> {
    let sampling = Sampling {
        max_new_tokens: config.response_length,
        temperature: config.temperature,
        top_k: 0,
        top_p: 1.0,
        stop_ids: vec![tokens.eos],
    };
    let ids: Vec<&[u32]> = prompts.iter().map(|prompt| prompt.prompt_ids.as_slice()).collect();
    let stream = |(place, prompt): (usize, &&Prompt)| {
        data::rng(seed, &["rollout".into(), update.into(), (place as u64).into(), (&prompt.id).into()])
    };
    let mut streams: Vec<ChaCha8Rng> = prompts.iter().enumerate().map(stream).collect();
    let hydra = policy.hydra();
    let completions =
        model::generate(&hydra.decoder, hydra.adapter(Role::Actor), &ids, &sampling, &mut streams);
    let rollout = |(prompt, completion): (&&[u32], model::Completion)| Rollout {
        ids: [*prompt, completion.ids.as_slice()].concat(),
        prompt: prompt.len(),
        finished: completion.finished,
        ..Rollout::default()
    };
    ids.iter().zip(completions).map(rollout).collect()
}

/// Fills in log-probabilities, values and scores. One adapter-off pass gives the reference's
/// log-probabilities and the reward together.
pub fn score<B: HydraBackend>(
    config: &Ppo,
    policy: &Policy<B>,
    batch: &mut [Rollout],
    tokens: SpecialTokens,
) {
    let hydra = policy.hydra();
    for rows in batch.chunks_mut(config.per_device_train_batch_size) {
        let views: Vec<&Rollout> = rows.iter().collect();
        let ids: Vec<&[u32]> = views.iter().map(|rollout| rollout.ids.as_slice()).collect();
        let padded = TokenBatch::right_padded(&ids, tokens.pad);
        let (at, targets) = (before_actions(&padded, &views), actions(&views));
        let last: Vec<usize> =
            ids.iter().enumerate().map(|(row, ids)| padded.flat(row, ids.len() - 1)).collect();

        let off = policy.hidden(Role::Reference, &padded);
        let scores = numbers(hydra.reward_head.forward(pick(off.clone(), &last)));
        let logprobs = |hidden| numbers(hydra.decoder.logprobs(hidden, &targets, config.temperature));
        let reference = logprobs(pick(off, &at));
        let actor = logprobs(pick(policy.hidden(Role::Actor, &padded), &at));
        let values = numbers(hydra.value_head.forward(pick(policy.hidden(Role::Critic, &padded), &at)));

        let mut first = 0;
        for (rollout, score) in rows.iter_mut().zip(scores) {
            let tokens = first..first + rollout.len();
            first = tokens.end;
            rollout.score = score;
            rollout.ref_logprobs = reference[tokens.clone()].to_vec();
            rollout.logprobs = actor[tokens.clone()].to_vec();
            rollout.values = values[tokens].to_vec();
        }
    }
}

/// Fills in KL, rewards, advantages and returns. The score is clipped first; the penalty for a missing EOS
/// is taken off afterwards, so that clipping cannot hide it.
pub fn advantages(config: &Ppo, kl_coef: f64, batch: &mut [Rollout]) {
    for rollout in batch.iter_mut() {
        let pairs = rollout.logprobs.iter().zip(&rollout.ref_logprobs);
        rollout.kl =
            pairs.map(|(logprob, reference)| estimate(config.kl_estimator, *logprob, *reference)).collect();
        let mut score = rollout.score;
        if config.reward_clip > 0.0 {
            let clip = config.reward_clip as f32;
            score = score.clamp(-clip, clip);
        }
        if !rollout.finished {
            score -= config.missing_eos_penalty as f32;
        }
        rollout.shaped_score = score;
        rollout.rewards = token_rewards(&rollout.kl, kl_coef, score);
    }
    if config.whiten_rewards {
        whiten_all(batch, |rollout| &mut rollout.rewards, false);
    }
    for rollout in batch.iter_mut() {
        (rollout.advantages, rollout.returns) =
            gae(&rollout.rewards, &rollout.values, config.gamma, config.lam);
    }
    if config.whiten_advantages {
        whiten_all(batch, |rollout| &mut rollout.advantages, true);
    }
}

fn whiten_all(batch: &mut [Rollout], field: impl Fn(&mut Rollout) -> &mut Vec<f32>, centre: bool) {
    let mut all: Vec<Vec<f32>> = batch.iter_mut().map(|rollout| std::mem::take(field(rollout))).collect();
    whiten(&mut all, centre);
    for (rollout, values) in batch.iter_mut().zip(all) {
        *field(rollout) = values;
    }
}
