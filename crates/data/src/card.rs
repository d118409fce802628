//! The data card: what was read, what was kept, what was dropped and why, and how long the rest is.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Why something was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A row that is not what its format says (`on_bad_row = "skip"`).
    BadRow,
    /// An answer whose question is not in the dump.
    OrphanAnswer,
    EmptyPrompt,
    EmptyResponse,
    PromptTooLong,
    ResponseTooLong,
    /// Both responses of a pair have the same token ids.
    SameResponses,
    /// The same prompt and responses again.
    DuplicatePair,
    /// The same prompt again; its pairs are kept.
    DuplicatePrompt,
    /// More pairs than `max_pairs_per_question`.
    OverPairLimit,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::BadRow => "bad row",
            Reason::OrphanAnswer => "answer without its question",
            Reason::EmptyPrompt => "empty prompt",
            Reason::EmptyResponse => "empty response",
            Reason::PromptTooLong => "prompt too long",
            Reason::ResponseTooLong => "response too long",
            Reason::SameResponses => "same response on both sides",
            Reason::DuplicatePair => "duplicate pair",
            Reason::DuplicatePrompt => "duplicate prompt",
            Reason::OverPairLimit => "pair over the limit per question",
        })
    }
}

/// How often one reason applied, and where first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Dropped {
    pub count: usize,
    /// Ids of the first few.
    pub examples: Vec<String>,
}

/// Counts of what was left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ledger(pub BTreeMap<Reason, Dropped>);

impl Ledger {
    const EXAMPLES: usize = 5;

    /// Counts one more thing left out.
    pub fn drop(&mut self, reason: Reason, id: impl Into<String>) {
        let dropped = self.0.entry(reason).or_default();
        dropped.count += 1;
        if dropped.examples.len() < Self::EXAMPLES {
            dropped.examples.push(id.into());
        }
    }

    /// How often a reason applied.
    pub fn count(&self, reason: Reason) -> usize {
        self.0.get(&reason).map_or(0, |dropped| dropped.count)
    }

    /// Reason, count and first example, as errors show them.
    pub(crate) fn reasons(&self) -> Vec<(String, usize, String)> {
        let first = |dropped: &Dropped| dropped.examples.first().cloned().unwrap_or_default();
        self.0.iter().map(|(reason, dropped)| (reason.to_string(), dropped.count, first(dropped))).collect()
    }
}

/// Lengths in tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LengthStats {
    pub min: usize,
    pub mean: f64,
    pub median: usize,
    pub p95: usize,
    pub max: usize,
}

impl LengthStats {
    /// All zero for no lengths. Percentiles are the nearest rank.
    pub fn of(mut lengths: Vec<usize>) -> Self {
        let (Some(last), false) = (lengths.len().checked_sub(1), lengths.is_empty()) else {
            return Self::default();
        };
        lengths.sort_unstable();
        let rank = |share: f64| lengths[(share * last as f64).round() as usize];
        Self {
            min: lengths[0],
            mean: lengths.iter().sum::<usize>() as f64 / lengths.len() as f64,
            median: rank(0.5),
            p95: rank(0.95),
            max: lengths[last],
        }
    }
}

/// What one split holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SplitCard {
    pub prompts: usize,
    pub pairs: usize,
    /// Tokens, BOS included.
    pub prompt_tokens: LengthStats,
    /// Tokens, EOS included.
    pub chosen_tokens: LengthStats,
    pub rejected_tokens: LengthStats,
}

/// `card.json` of prepared data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Card {
    pub questions_read: usize,
    pub answers_read: usize,
    pub prompts_kept: usize,
    pub pairs_kept: usize,
    pub dropped: Ledger,
    pub splits: BTreeMap<String, SplitCard>,
    /// BLAKE3 of the tokenizer that made the ids.
    pub tokenizer: String,
}
