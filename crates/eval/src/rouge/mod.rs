//! ROUGE-1, -2, -L and -Lsum, equal to the PyPI package `rouge-score` 0.1.2 (its default tokenizer).
//!
//! Source: Lin 2004, and the 1.5.5 script that `rouge-score` follows: summary-level LCS counts each token
//! at most as often as both texts have it.

mod lcs;
mod porter;
mod tokenize;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

pub use porter::stem;
pub use tokenize::tokenize;

use crate::answers::AnswerRow;
use crate::error::EvalError;
use crate::summary::{RougeMeans, RougeSummary};

/// Precision, recall and their harmonic mean.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    pub p: f64,
    pub r: f64,
    pub f: f64,
}

impl Score {
    /// From the number of matches and the sizes of prediction and target.
    fn new(hits: usize, prediction: usize, target: usize) -> Self {
        let p = hits as f64 / prediction.max(1) as f64;
        let r = hits as f64 / target.max(1) as f64;
        let f = if p + r > 0.0 { 2.0 * p * r / (p + r) } else { 0.0 };
        Self { p, r, f }
    }
}

/// The four scores of one prediction against one target.
pub fn rouge(target: &str, prediction: &str, use_stemmer: bool) -> RougeMeans {
    let (target_tokens, prediction_tokens) =
        (tokenize(target, use_stemmer), tokenize(prediction, use_stemmer));
    let sentences = |text: &str| -> Vec<Vec<String>> {
        text.split('\n').filter(|line| !line.is_empty()).map(|line| tokenize(line, use_stemmer)).collect()
    };
    RougeMeans {
        rouge1: ngrams(&target_tokens, &prediction_tokens, 1),
        rouge2: ngrams(&target_tokens, &prediction_tokens, 2),
        rouge_l: lcs::sentence(&target_tokens, &prediction_tokens),
        rouge_lsum: lcs::summary(&sentences(target), &sentences(prediction)),
    }
}

fn ngrams(target: &[String], prediction: &[String], n: usize) -> Score {
    let mut left: HashMap<&[String], usize> = HashMap::new();
    target.windows(n).for_each(|gram| *left.entry(gram).or_default() += 1);
    let mut hits = 0;
    for gram in prediction.windows(n) {
        if let Some(count) = left.get_mut(gram).filter(|count| **count > 0) {
            *count -= 1;
            hits += 1;
        }
    }
    let grams = |tokens: &[String]| (tokens.len() + 1).saturating_sub(n);
    Score::new(hits, grams(prediction), grams(target))
}

/// Mean scores of each of `models` over the rows that have a reference.
pub fn summarise(rows: &[AnswerRow], use_stemmer: bool) -> Result<RougeSummary, EvalError> {
    let scored: Vec<(&AnswerRow, &str)> =
        rows.iter().filter_map(|row| Some((row, row.reference.as_deref()?))).collect();
    if scored.is_empty() {
        let message = format!("none of {} prompts has a reference answer", rows.len());
        return Err(EvalError::NothingToCompare { message });
    }
    let mut sums: std::collections::BTreeMap<&String, Vec<RougeMeans>> = Default::default();
    let (mut texts, mut tokenless) = (0, 0);
    let mut count = |text: &str| {
        texts += 1;
        tokenless += usize::from(tokenize(text, false).is_empty());
    };
    for (row, reference) in &scored {
        count(reference);
        for (model, answer) in &row.answers {
            count(&answer.text);
            sums.entry(model).or_default().push(rouge(reference, &answer.text, use_stemmer));
        }
    }
    Ok(RougeSummary {
        n: scored.len(),
        without_reference: rows.len() - scored.len(),
        use_stemmer,
        tokenless_share: tokenless as f64 / texts as f64,
        models: sums.into_iter().map(|(model, scores)| (model.clone(), mean(&scores))).collect(),
    })
}

fn mean(scores: &[RougeMeans]) -> RougeMeans {
    let mean = |field: fn(&RougeMeans) -> Score| {
        let n = scores.len() as f64;
        let part = |of: fn(Score) -> f64| scores.iter().map(|s| of(field(s))).sum::<f64>() / n;
        Score { p: part(|s| s.p), r: part(|s| s.r), f: part(|s| s.f) }
    };
    RougeMeans {
        rouge1: mean(|s| s.rouge1),
        rouge2: mean(|s| s.rouge2),
        rouge_l: mean(|s| s.rouge_l),
        rouge_lsum: mean(|s| s.rouge_lsum),
    }
}
