//! The shape of each evaluation stage's `summary.json`: stages write these, `report` reads them.
//!
//! Only numbers that follow from the inputs: no times, no paths. Win rates are in percent (0 to 100, 50 =
//! even), shares in 0 to 1.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An estimate with the ends of its 95 % interval and the number of prompts (or pairs) behind it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
    pub n: usize,
}

/// `generate`: how the models answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateSummary {
    /// Prompts answered by every model.
    pub n: usize,
    /// By model name.
    pub models: BTreeMap<String, GenerateStats>,
}

/// One model's answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateStats {
    /// Share correct by the data source's own rule (Wilson interval); absent where no rule can tell.
    pub correct_share: Option<Interval>,
    /// Mean answer length in tokens, EOS included.
    pub mean_tokens: f64,
    /// Share that ended by itself instead of at `max_new_tokens`.
    pub finished_share: f64,
    /// Share of answers with no visible text.
    pub empty_share: f64,
}

/// `judge`: verdicts and the win rates they give.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgeSummary {
    /// `reward-model` or `openai`.
    pub provider: String,
    /// The judging stage or the endpoint's model name.
    pub judge: String,
    /// Compared models, in the order of the `generate` stage.
    pub models: Vec<String>,
    /// Judgements by state; `missing` counts those never made.
    pub states: BTreeMap<String, usize>,
    /// Prompts × pairs of models.
    pub comparisons: usize,
    /// Share of comparisons with a valid verdict in every order.
    pub coverage: f64,
    pub min_coverage: f64,
    /// Share of comparisons judged in both orders whose two verdicts agree; absent with one order.
    pub agreement_between_orders: Option<f64>,
    /// Share of non-tie verdicts that went to the answer shown first; absent with one order.
    pub first_shown_share: Option<f64>,
    /// Expected win rate in percent by model; absent below `min_coverage`.
    pub win_rate: Option<BTreeMap<String, Interval>>,
    /// One entry per pair of models.
    pub pairs: Vec<PairSummary>,
    /// Tokens that the judge was sent and answered; 0 offline.
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
}

/// One pair of models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairSummary {
    pub model_a: String,
    pub model_b: String,
    /// Win rate of `model_a` over `model_b` in percent; absent below `min_coverage`.
    pub win_rate: Option<Interval>,
    /// Comparisons that `model_a` won, that neither won (ties and disagreements), that it lost.
    pub wins: usize,
    pub ties: usize,
    pub losses: usize,
    /// Comparisons without a valid verdict.
    pub invalid: usize,
}

/// `reward-eval`: how well a reward model tells chosen from rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RewardEvalSummary {
    /// Pairs.
    pub n: usize,
    /// Share of pairs with chosen above rejected; an equal score counts half.
    pub accuracy: f64,
    /// Wilson 95 % interval of `accuracy`.
    pub accuracy_low: f64,
    pub accuracy_high: f64,
    /// Mean of chosen − rejected.
    pub margin: f64,
    /// Population standard deviation of chosen − rejected.
    pub margin_std: f64,
    pub chosen_mean: f64,
    pub chosen_std: f64,
    pub rejected_mean: f64,
    pub rejected_std: f64,
    /// Pairs with exactly equal scores.
    pub ties: usize,
    /// The gate of the stage, and whether `accuracy` passes it.
    pub min_accuracy: f64,
    pub passed: bool,
}

/// `rouge`: mean scores against the reference answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RougeSummary {
    /// Prompts with a reference, and without one (left out).
    pub n: usize,
    pub without_reference: usize,
    pub use_stemmer: bool,
    /// Share of texts, references included, with no token in ROUGE's alphabet a–z 0–9: such text scores 0.
    pub tokenless_share: f64,
    /// By model name.
    pub models: BTreeMap<String, RougeMeans>,
}

/// Mean precision, recall and F1 of one model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RougeMeans {
    pub rouge1: crate::rouge::Score,
    pub rouge2: crate::rouge::Score,
    #[serde(rename = "rougeL")]
    pub rouge_l: crate::rouge::Score,
    #[serde(rename = "rougeLsum")]
    pub rouge_lsum: crate::rouge::Score,
}
