//! Preference pairs: two answers of one question with different scores.

use rand::seq::index;

use crate::source::{Answer, Question};
use crate::{Ledger, Reason, rng};

/// The pairs of a question, better answer first, in the order of its answers. Of more than `limit` a
/// random choice is kept, which depends on the seed and the question's id alone.
pub(crate) fn of<'a>(
    question: &'a Question,
    limit: usize,
    seed: u64,
    ledger: &mut Ledger,
) -> Vec<(&'a Answer, &'a Answer)> {
    let mut pairs = Vec::new();
    for (at, first) in question.answers.iter().enumerate() {
        for second in &question.answers[at + 1..] {
            match first.score.cmp(&second.score) {
                std::cmp::Ordering::Greater => pairs.push((first, second)),
                std::cmp::Ordering::Less => pairs.push((second, first)),
                std::cmp::Ordering::Equal => {}
            }
        }
    }
    if pairs.len() <= limit {
        return pairs;
    }
    let mut kept =
        index::sample(&mut rng(seed, &["pairs".into(), (&question.id).into()]), pairs.len(), limit)
            .into_vec();
    kept.sort_unstable();
    for (at, (chosen, rejected)) in pairs.iter().enumerate() {
        if kept.binary_search(&at).is_err() {
            ledger.drop(Reason::OverPairLimit, id(question, chosen, rejected));
        }
    }
    kept.into_iter().map(|at| pairs[at]).collect()
}

/// A pair's id: its question and its two answers.
pub(crate) fn id(question: &Question, chosen: &Answer, rejected: &Answer) -> String {
    format!("{}/{}>{}", question.id, chosen.id, rejected.id)
}
