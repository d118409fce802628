//! Longest common subsequences: of two token lists (ROUGE-L), and the union over sentences (ROUGE-Lsum).

use std::collections::{BTreeSet, HashMap};

use super::Score;

/// ROUGE-L of one token list against another.
pub(super) fn sentence(target: &[String], prediction: &[String]) -> Score {
    let length = table(target, prediction).last().and_then(|row| row.last().copied()).unwrap_or(0);
    Score::new(length as usize, prediction.len(), target.len())
}

/// ROUGE-Lsum: each target sentence's union of longest common subsequences with all prediction sentences.
/// A token counts at most as often as it occurs in both texts.
pub(super) fn summary(target: &[Vec<String>], prediction: &[Vec<String>]) -> Score {
    let (mut target_left, mut prediction_left) = (counts(target), counts(prediction));
    let mut hits = 0;
    for sentence in target {
        let union: BTreeSet<usize> = prediction.iter().flat_map(|other| matched(sentence, other)).collect();
        for token in union.iter().map(|&at| sentence[at].as_str()) {
            let (Some(in_target), Some(in_prediction)) =
                (target_left.get_mut(token), prediction_left.get_mut(token))
            else {
                continue;
            };
            if *in_target > 0 && *in_prediction > 0 {
                hits += 1;
                *in_target -= 1;
                *in_prediction -= 1;
            }
        }
    }
    let size = |sentences: &[Vec<String>]| sentences.iter().map(Vec::len).sum();
    Score::new(hits, size(prediction), size(target))
}

fn counts(sentences: &[Vec<String>]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    sentences.iter().flatten().for_each(|token| *counts.entry(token.as_str()).or_default() += 1);
    counts
}

/// `table[i][j]`: length of the longest common subsequence of the first i and the first j tokens.
fn table(a: &[String], b: &[String]) -> Vec<Vec<u32>> {
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, left) in a.iter().enumerate() {
        for (j, right) in b.iter().enumerate() {
            table[i + 1][j + 1] =
                if left == right { table[i][j] + 1 } else { table[i][j + 1].max(table[i + 1][j]) };
        }
    }
    table
}

/// Positions in `a` of one longest common subsequence with `b`: the one that `rouge-score` finds, which
/// prefers to shorten `a` where both are as good.
fn matched(a: &[String], b: &[String]) -> Vec<usize> {
    let table = table(a, b);
    let (mut i, mut j) = (a.len(), b.len());
    let mut positions = Vec::new();
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            positions.push(i - 1);
            i -= 1;
            j -= 1;
        } else if table[i][j - 1] > table[i - 1][j] {
            j -= 1;
        } else {
            i -= 1;
        }
    }
    positions
}
