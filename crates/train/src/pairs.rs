//! Preference pairs: `reward`, and `hydra-sft` which learns to speak and to score at once.

use burn::backend::Autodiff;
use burn::tensor::Tensor;
use data::Pair;
use model::{Head, HydraBackend, Llama, Parameters};
use serde::Serialize;
use spec::Section;
use spec::stage::{HydraSft, Reward, RewardLoss, Training};

use crate::batching::{numbers, pick, tensor};
use crate::checkpoint::Identity;
use crate::lm::{HeldOut, Row, check_rows, chosen_row, forward, lm_loss, lm_nll};
use crate::supervised::{Sums, Task, Totals, fit};
use crate::{Outcome, Recorder, TrainError, pair_loss, score};

/// A decoder with a scalar head.
#[derive(Debug, Clone)]
struct Scoring<B: HydraBackend> {
    decoder: Llama<B>,
    head: Head<B>,
}

impl<B: HydraBackend> Parameters<B> for Scoring<B> {
    type On<C: HydraBackend> = Scoring<C>;

    fn visit<'a>(&'a self, f: &mut dyn FnMut(&str, &'a Tensor<B, 2>)) {
        self.decoder.visit(f);
        self.head.visit(f);
    }

    fn map<C: HydraBackend>(&self, f: &mut dyn FnMut(&str, &Tensor<B, 2>) -> Tensor<C, 2>) -> Scoring<C> {
        Scoring { decoder: self.decoder.map(f), head: self.head.map(f) }
    }
}

/// A trained reward model.
#[derive(Debug, Clone)]
pub struct TrainedReward<B: HydraBackend> {
    /// The trunk.
    pub decoder: Llama<B>,
    /// Its scalar head.
    pub head: Head<B>,
    /// Numbers for the stage's summary.
    pub summary: PairSummary,
}

/// A trained Hydra-SFT model.
#[derive(Debug, Clone)]
pub struct HydraSftResult<B: HydraBackend> {
    /// Trunk and language-model head.
    pub decoder: Llama<B>,
    /// The scalar head.
    pub reward_head: Head<B>,
    /// Numbers for the stage's summary.
    pub summary: PairSummary,
}

/// The summary of a stage that learns from pairs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairSummary {
    /// Trained parameters.
    pub parameters: usize,
    /// Pairs trained on.
    pub pairs: usize,
    /// Language-model loss on the held-out preferred responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out: Option<HeldOut>,
    /// Share of held-out pairs ranked right after training; an equal score counts half.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out_accuracy: Option<f64>,
}

/// Trains a reward model: the pair loss alone.
pub fn reward<B: HydraBackend>(
    config: &Reward,
    pairs: &[Pair],
    decoder: Llama<B>,
    pad: u32,
    seed: u64,
    recorder: &mut dyn Recorder,
) -> Result<Outcome<TrainedReward<B>>, TrainError> {
    let goal = Goal { lm: None, pair_coef: 1.0, reward_loss: config.reward_loss };
    let outcome = train("reward", config, &config.training, goal, pairs, &[], decoder, pad, seed, recorder)?;
    Ok(outcome.map(|(model, summary)| TrainedReward { decoder: model.decoder, head: model.head, summary }))
}

/// Trains both heads at once: `L = L_lm(x, y_w) + reward_loss_coef · L_pair(x, y_w, y_l)` (Santacroce et
/// al., arXiv 2309.00754, section 4). One pass over a pair feeds both.
pub fn hydra_sft<B: HydraBackend>(
    config: &HydraSft,
    pairs: &[Pair],
    held_out: &[Pair],
    decoder: Llama<B>,
    pad: u32,
    seed: u64,
    recorder: &mut dyn Recorder,
) -> Result<Outcome<HydraSftResult<B>>, TrainError> {
    let lm = Some(config.train_on_prompt);
    let goal = Goal { lm, pair_coef: config.reward_loss_coef, reward_loss: config.reward_loss };
    let training = &config.training;
    let outcome = train("hydra-sft", config, training, goal, pairs, held_out, decoder, pad, seed, recorder)?;
    Ok(outcome.map(|(model, summary)| HydraSftResult {
        decoder: model.decoder,
        reward_head: model.head,
        summary,
    }))
}

/// What is minimised.
#[derive(Debug, Clone, Copy)]
struct Goal {
    /// The language-model loss, and whether the prompt's tokens are labels too.
    lm: Option<bool>,
    pair_coef: f64,
    reward_loss: RewardLoss,
}

fn train<B: HydraBackend>(
    trainer: &str,
    section: &dyn Section,
    training: &Training,
    goal: Goal,
    pairs: &[Pair],
    held_out: &[Pair],
    decoder: Llama<B>,
    pad: u32,
    seed: u64,
    recorder: &mut dyn Recorder,
) -> Result<Outcome<(Scoring<B>, PairSummary)>, TrainError> {
    let pairs = &different(pairs, recorder)?;
    let held_out = &different_or_none(held_out);
    let whole = |pair: &Pair, response: &[u32]| [pair.prompt_ids.as_slice(), response].concat();
    for pair in pairs.iter().chain(held_out) {
        if pair.chosen_ids.is_empty() || pair.rejected_ids.is_empty() {
            return Err(TrainError::Empty { what: format!("pair {} has an empty response", pair.id) });
        }
        let rows = [whole(pair, &pair.chosen_ids), whole(pair, &pair.rejected_ids)];
        check_rows(rows.iter().map(|ids| (pair.id.clone(), ids.as_slice())), &decoder)?;
    }
    let ids = pairs.iter().flat_map(|pair| [&pair.prompt_ids, &pair.chosen_ids, &pair.rejected_ids]);
    let identity = Identity::new(trainer, section, ids.map(Vec::as_slice), decoder.hash(), seed);

    let width = decoder.config().hidden_size;
    let device = decoder.device();
    // As TRL does for its scalar heads: small enough that all scores begin near 0.
    let head = Head::init(width, 1.0 / (width as f64 + 1.0).sqrt(), seed, &device);
    let model = Scoring { decoder, head };
    let batch = training.per_device_train_batch_size;
    let held_rows: Vec<Row> = match goal.lm {
        Some(train_on_prompt) => held_out.iter().map(|pair| chosen_row(pair, train_on_prompt)).collect(),
        None => Vec::new(),
    };
    let before = lm_loss(&model.decoder, &held_rows, batch, pad);
    let parameters = model.count();
    let task = PairTask { pairs, goal, pad };
    let outcome = fit(&task, model, training, &identity, &device, recorder)?;
    match outcome {
        Outcome::Interrupted { step } => Ok(Outcome::Interrupted { step }),
        Outcome::Finished(model) => {
            let after = lm_loss(&model.decoder, &held_rows, batch, pad);
            let summary = PairSummary {
                parameters,
                pairs: pairs.len(),
                held_out: before.zip(after).map(|(before, after)| HeldOut::new(before, after)),
                held_out_accuracy: accuracy(&model, held_out, batch, pad)?,
            };
            Ok(Outcome::Finished((model, summary)))
        }
    }
}

/// The pairs that have something to learn: two equal responses give the constant loss ln 2. Those left out
/// are counted in a warning.
fn different(pairs: &[Pair], recorder: &mut dyn Recorder) -> Result<Vec<Pair>, TrainError> {
    let kept = different_or_none(pairs);
    let same = pairs.len() - kept.len();
    let examples: Vec<&str> =
        pairs.iter().filter(|pair| !differs(pair)).take(3).map(|pair| pair.id.as_str()).collect();
    let counted =
        format!("{same} of {} pairs have two equal responses ({})", pairs.len(), examples.join(", "));
    match (kept.is_empty(), same) {
        (true, 0) => Err(TrainError::Empty { what: "no pair".into() }),
        (true, _) => Err(TrainError::Empty { what: counted }),
        (false, 0) => Ok(kept),
        (false, _) => {
            recorder.warning(&format!("{counted} and are left out"));
            Ok(kept)
        }
    }
}

fn different_or_none(pairs: &[Pair]) -> Vec<Pair> {
    pairs.iter().filter(|pair| differs(pair)).cloned().collect()
}

fn differs(pair: &Pair) -> bool {
    pair.chosen_ids != pair.rejected_ids
}

/// Share of pairs whose preferred response scores higher; `None` without pairs.
fn accuracy<B: HydraBackend>(
    model: &Scoring<B>,
    pairs: &[Pair],
    batch: usize,
    pad: u32,
) -> Result<Option<f64>, TrainError> {
    let rows: Vec<(&[u32], &[u32])> = pairs
        .iter()
        .flat_map(|pair| [&pair.chosen_ids, &pair.rejected_ids].map(|ids| (&pair.prompt_ids[..], &ids[..])))
        .collect();
    let scores = score(&model.decoder, &model.head, &rows, batch, pad)?;
    let points: f64 = scores.chunks_exact(2).map(|pair| point(pair[0], pair[1])).sum();
    Ok((!pairs.is_empty()).then(|| points / pairs.len() as f64))
}

/// 1 for the right order, ½ for a tie.
fn point(chosen: f32, rejected: f32) -> f64 {
    match chosen.partial_cmp(&rejected) {
        Some(std::cmp::Ordering::Greater) => 1.0,
        Some(std::cmp::Ordering::Equal) => 0.5,
        _ => 0.0,
    }
}

struct PairTask<'a> {
    pairs: &'a [Pair],
    goal: Goal,
    pad: u32,
}

/// Where a pair's scores are compared: token indices in the two rows, and the weight of each comparison.
fn comparisons(pair: &Pair, reward_loss: RewardLoss) -> Vec<(usize, usize, f32)> {
    let prompt = pair.prompt_ids.len();
    let (chosen, rejected) = (pair.chosen_ids.len(), pair.rejected_ids.len());
    if reward_loss == RewardLoss::LastToken {
        return vec![(prompt + chosen - 1, prompt + rejected - 1, 1.0)];
    }
    let first = pair.chosen_ids.iter().zip(&pair.rejected_ids).take_while(|(a, b)| a == b).count();
    let end = chosen.max(rejected);
    // A response that has ended keeps the score of its last token, so that padding plays no part.
    let last = |token: usize, len: usize| prompt + token.min(len - 1);
    let weight = 1.0 / (end - first).max(1) as f32;
    (first..end).map(|token| (last(token, chosen), last(token, rejected), weight)).collect()
}

impl<B: HydraBackend> Task<B> for PairTask<'_> {
    type Model = Scoring<B>;

    fn rows(&self) -> usize {
        self.pairs.len()
    }

    fn totals(&self, rows: &[usize]) -> Totals {
        let labels = |pair: &Pair| match self.goal.lm {
            Some(train_on_prompt) => {
                let row = chosen_row(pair, train_on_prompt);
                row.ids.len() - row.first_label
            }
            None => 0,
        };
        Totals { tokens: rows.iter().map(|&row| labels(&self.pairs[row])).sum(), rows: rows.len() }
    }

    fn loss(
        &self,
        model: &Scoring<Autodiff<B>>,
        rows: &[usize],
        totals: Totals,
        sums: &mut Sums,
    ) -> Tensor<Autodiff<B>, 1> {
        let pairs: Vec<&Pair> = rows.iter().map(|&row| &self.pairs[row]).collect();
        // Row 2i is the preferred response of pair i, row 2i + 1 the other one.
        let whole: Vec<Vec<u32>> = pairs
            .iter()
            .flat_map(|pair| {
                [&pair.chosen_ids, &pair.rejected_ids].map(|ids| [&pair.prompt_ids[..], ids].concat())
            })
            .collect();
        let (batch, hidden) = forward(&model.decoder, whole.iter().map(Vec::as_slice), self.pad);

        let (mut chosen, mut rejected, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        for (index, pair) in pairs.iter().enumerate() {
            for (in_chosen, in_rejected, weight) in comparisons(pair, self.goal.reward_loss) {
                chosen.push(batch.flat(2 * index, in_chosen));
                rejected.push(batch.flat(2 * index + 1, in_rejected));
                weights.push(weight / totals.rows as f32);
            }
        }
        let chosen = model.head.forward(pick(hidden.clone(), &chosen));
        let rejected = model.head.forward(pick(hidden.clone(), &rejected));
        let weights = tensor(weights, &hidden.device());
        self.count(&pairs, &chosen, &rejected, totals, sums);
        let pair_loss = (pair_loss(chosen, rejected) * weights).sum();
        *sums.entry("loss/reward").or_default() += f64::from(numbers(pair_loss.clone().inner())[0]);

        let mut loss = pair_loss * self.goal.pair_coef;
        if let Some(train_on_prompt) = self.goal.lm {
            let labelled: Vec<Row> = pairs.iter().map(|pair| chosen_row(pair, train_on_prompt)).collect();
            let labelled: Vec<(usize, &Row)> =
                labelled.iter().enumerate().map(|(index, row)| (2 * index, row)).collect();
            let lm = lm_nll(&model.decoder, hidden, &batch, &labelled) / totals.tokens as f64;
            *sums.entry("loss/lm").or_default() += f64::from(numbers(lm.clone().inner())[0]);
            loss = lm + loss;
        }
        *sums.entry("loss").or_default() += f64::from(numbers(loss.clone().inner())[0]);
        loss
    }
}

impl PairTask<'_> {
    /// Shares of accuracy and margin, read at each pair's last comparison: the ends of both responses.
    fn count<B: HydraBackend>(
        &self,
        pairs: &[&Pair],
        chosen: &Tensor<Autodiff<B>, 1>,
        rejected: &Tensor<Autodiff<B>, 1>,
        totals: Totals,
        sums: &mut Sums,
    ) {
        let (chosen, rejected) = (numbers(chosen.clone().inner()), numbers(rejected.clone().inner()));
        let mut at = 0;
        for pair in pairs {
            at += comparisons(pair, self.goal.reward_loss).len();
            let (chosen, rejected) = (chosen[at - 1], rejected[at - 1]);
            *sums.entry("rewards/accuracy").or_default() += point(chosen, rejected) / totals.rows as f64;
            *sums.entry("rewards/margin").or_default() += f64::from(chosen - rejected) / totals.rows as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use burn::backend::Flex;
    use model::LlamaConfig;

    use super::*;

    #[derive(Default)]
    struct Warnings(Vec<String>);

    impl Recorder for Warnings {
        fn metrics(&mut self, _: u64, _: &[(&str, f64)]) {}
        fn progress(&mut self, _: u64, _: u64, _: &str, _: &str) {}
        fn warning(&mut self, message: &str) {
            self.0.push(message.to_owned());
        }
        fn should_stop(&self) -> bool {
            false
        }
        fn resume_from(&self) -> Option<&Path> {
            None
        }
        fn checkpoint(
            &mut self,
            _: u64,
            _: &mut dyn FnMut(&Path) -> Result<(), TrainError>,
        ) -> Result<(), TrainError> {
            Ok(())
        }
    }

    fn pair(id: &str, chosen: &[u32], rejected: &[u32]) -> Pair {
        Pair {
            id: id.into(),
            question: id.into(),
            prompt: String::new(),
            chosen: String::new(),
            rejected: String::new(),
            prompt_ids: vec![3, 4],
            chosen_ids: chosen.to_vec(),
            rejected_ids: rejected.to_vec(),
            meta: None,
        }
    }

    fn run(pairs: &[Pair], warnings: &mut Warnings) -> Result<PairSummary, TrainError> {
        let shape = LlamaConfig {
            vocab_size: 16,
            hidden_size: 8,
            intermediate_size: 8,
            num_hidden_layers: 1,
            num_attention_heads: 1,
            num_key_value_heads: 1,
            head_dim: 8,
            max_position_embeddings: 16,
            ..LlamaConfig::default()
        };
        let config = HydraSft { reward_loss: RewardLoss::PerToken, ..HydraSft::default() };
        let decoder = Llama::<Flex>::init(&shape, 1, &Default::default());
        match hydra_sft(&config, pairs, &[], decoder, 0, 1, warnings)? {
            Outcome::Finished(result) => Ok(result.summary),
            Outcome::Interrupted { .. } => unreachable!("nobody asked for it"),
        }
    }

    #[test]
    fn a43_pairs_of_equal_responses_are_left_out_and_counted() {
        let mut warnings = Warnings::default();
        let pairs = [pair("same", &[5, 1], &[5, 1]), pair("other", &[5, 1], &[6, 7, 1])];
        assert_eq!(run(&pairs, &mut warnings).expect("a run").pairs, 1);
        assert_eq!(warnings.0, ["1 of 2 pairs have two equal responses (same) and are left out"]);
    }

    #[test]
    fn a44_a_set_with_nothing_to_learn_is_refused_with_its_count() {
        let error = run(&[pair("same", &[5, 1], &[5, 1])], &mut Warnings::default()).expect_err("nothing");
        assert!(error.to_string().contains("1 of 1 pairs have two equal responses (same)"), "{error}");
    }
}
