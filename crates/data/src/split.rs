//! Which split a question belongs to. Prompts that are the same but for case, spaces and punctuation are
//! one group, and a group is never parted.

use std::collections::{BTreeMap, HashMap};

use crate::DataError;
use crate::source::Question;

/// The split of prompts that no training split may see.
pub const EVAL: &str = "eval";

/// Indices of the questions of each split, ascending, and each question's group id.
#[derive(Debug, PartialEq)]
pub(crate) struct Splits {
    pub members: BTreeMap<String, Vec<usize>>,
    /// Id of the first question of the group.
    pub group: Vec<String>,
}

/// Holds out `eval` questions (more only where the last group is larger than what is missing), then
/// shares the rest out by `shares`. Groups are taken in the order of a hash of seed and text, so that
/// a question's place does not depend on its position in the file.
pub(crate) fn assign(
    questions: &[Question],
    shares: &BTreeMap<String, f64>,
    eval: usize,
    seed: u64,
) -> Result<Splits, DataError> {
    validate(shares)?;
    room(questions.len(), eval)?;
    let mut group = vec![String::new(); questions.len()];
    let mut ordered = Vec::new();
    for (key, members) in groups(questions) {
        for &member in &members {
            group[member].clone_from(&questions[members[0]].id);
        }
        ordered.push((place(seed, &key), members));
    }
    ordered.sort_unstable();

    let mut held_out = Vec::new();
    let mut rest = Vec::new();
    for (_, members) in ordered {
        if held_out.len() < eval { held_out.extend(members) } else { rest.push(members) }
    }
    let mut splits = share_out(rest, shares);
    if eval > 0 {
        splits.insert(EVAL.into(), held_out);
    }
    for (name, members) in &mut splits {
        members.sort_unstable();
        if members.is_empty() {
            return Err(DataError::Split {
                problem: format!("no question is left for `{name}`"),
                help: format!("there are {} questions: lower `eval` or raise its share", questions.len()),
            });
        }
    }
    Ok(Splits { members: splits, group })
}

/// Cuts the groups, in their order, at the cumulated shares of the number of questions.
fn share_out(groups: Vec<Vec<usize>>, shares: &BTreeMap<String, f64>) -> BTreeMap<String, Vec<usize>> {
    let total: f64 = shares.values().sum();
    let count = groups.iter().map(Vec::len).sum::<usize>() as f64;
    let mut bounds = Vec::new();
    let mut cumulated = 0.0;
    for (name, share) in shares.iter().filter(|(_, share)| **share > 0.0) {
        cumulated += share;
        bounds.push((name, (cumulated / total * count).round() as usize));
    }
    let mut splits: BTreeMap<String, Vec<usize>> =
        bounds.iter().map(|(name, _)| ((*name).clone(), Vec::new())).collect();
    let mut taken = 0;
    for members in groups {
        let last = bounds.len() - 1;
        let at = bounds.iter().position(|(_, bound)| taken < *bound).unwrap_or(last);
        taken += members.len();
        splits.entry(bounds[at].0.clone()).or_default().extend(members);
    }
    splits
}

/// Checks names and shares.
pub(crate) fn validate(shares: &BTreeMap<String, f64>) -> Result<(), DataError> {
    let fail = |problem: String, help: &str| Err(DataError::Split { problem, help: help.into() });
    for (name, share) in shares {
        if name == EVAL {
            return fail("`eval` is not a share".into(), "the number of its questions is the key `eval`");
        }
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
            return fail(format!("`{name}` is not a name"), "use letters, digits, `-` and `_`");
        }
        if !share.is_finite() || *share < 0.0 {
            return fail(format!("the share of `{name}` is {share}"), "shares are numbers from 0 up");
        }
    }
    if shares.values().all(|share| *share == 0.0) {
        return fail("there is no share above 0".into(), "for example `split = { sft = 6, ppo = 4 }`");
    }
    Ok(())
}

/// Checks that something is left beside the questions held out.
pub(crate) fn room(questions: usize, eval: usize) -> Result<(), DataError> {
    if eval < questions {
        return Ok(());
    }
    Err(DataError::Split {
        problem: format!("`eval = {eval}` would hold out all {questions} questions"),
        help: format!("set `eval` well below {questions}"),
    })
}

/// Questions by normalised prompt, each in the order of the file.
fn groups(questions: &[Question]) -> HashMap<String, Vec<usize>> {
    let mut groups: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, question) in questions.iter().enumerate() {
        groups.entry(normalised(&question.prompt)).or_default().push(index);
    }
    groups
}

/// A prompt's letters and digits in lower case, one space between words. A prompt without any keeps its
/// own characters.
fn normalised(prompt: &str) -> String {
    let lower = prompt.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    if words.is_empty() { lower } else { words.join(" ") }
}

fn place(seed: u64, key: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("hydra-pipeline 2026 split");
    hasher.update(&seed.to_le_bytes()).update(key.as_bytes());
    *hasher.finalize().as_bytes()
}
