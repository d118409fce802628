//! Judging an answer by rule.

use super::phrases::RUDE;
use super::world::{Attribute, PEOPLE};
use crate::Meta;

/// Words that an answer to the point has at most.
pub(super) const CONCISE_WORDS: usize = 7;

/// What can be said of an answer without a judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// It names exactly one value of the world, the right one, and nobody but the person asked about.
    pub correct: bool,
    /// It says something, and nothing rude.
    pub polite: bool,
    /// It has one to seven words.
    pub concise: bool,
}

/// Judges an answer to the question whose `meta` this is. Without a known answer nothing is correct.
pub fn check(meta: &Meta, answer: &str) -> Check {
    let field = |name: &str| meta.get(name).and_then(|value| value.as_str()).unwrap_or_default();
    let (right, person) = (field("answer"), field("person").to_lowercase());
    let lower = answer.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_value = |word: &&str| Attribute::ALL.iter().any(|attribute| attribute.values().contains(word));
    let mut values = words.iter().copied().filter(is_value).peekable();
    let somebody_else =
        |word: &&str| **word != *person && PEOPLE.iter().any(|name| name.eq_ignore_ascii_case(word));
    let rude = RUDE.iter().any(|phrase| {
        let phrase = phrase.to_lowercase();
        let phrase: Vec<&str> =
            phrase.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
        words.windows(phrase.len()).any(|window| window == phrase)
    });
    Check {
        correct: values.peek().is_some()
            && values.all(|word| word == right)
            && !words.iter().any(somebody_else),
        polite: !words.is_empty() && !rude,
        concise: (1..=CONCISE_WORDS).contains(&answer.split_whitespace().count()),
    }
}
