//! `rouge-score`'s default tokenizer: lower-case, every run outside a–z 0–9 splits, words of more than
//! three characters are stemmed.

use super::porter::stem;

/// The tokens of `text`. Lower-casing is Unicode's, as Python's: U+212A KELVIN SIGN becomes `k`.
pub fn tokenize(text: &str, use_stemmer: bool) -> Vec<String> {
    let lower = text.to_lowercase();
    lower
        .split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit()))
        .filter(|word| !word.is_empty())
        .map(|word| if use_stemmer && word.len() > 3 { stem(word) } else { word.to_string() })
        .collect()
}
