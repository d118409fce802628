//! Porter's stemmer as NLTK's `PorterStemmer` has it by default, which is what `rouge-score` uses.
//!
//! Source: Porter 1980, with the deviations of NLTK's `NLTK_EXTENSIONS` mode: a table of irregular forms,
//! four-letter `-ies`/`-ied`, `-y` only after a consonant, two-letter stems as *o, `-alli` first, `-fulli`
//! and `-logi`. It is not the later "English" (Porter2) algorithm of Snowball.

/// Stems a word of ASCII lower-case letters and digits. Any other byte counts as a consonant.
pub fn stem(word: &str) -> String {
    if let Some(stem) = irregular(word) {
        return stem.into();
    }
    if word.len() <= 2 || !word.is_ascii() {
        return word.into();
    }
    let mut word = word.to_string();
    plural(&mut word);
    past(&mut word);
    final_y(&mut word);
    double_suffix(&mut word);
    apply(&mut word, STEP3, |stem, _| measure(stem) > 0);
    apply(&mut word, STEP4, |stem, suffix| {
        measure(stem) > 1 && (suffix != "ion" || stem.ends_with(['s', 't']))
    });
    final_e(&mut word);
    if word.ends_with("ll") && measure(&word[..word.len() - 1]) > 1 {
        word.pop();
    }
    word
}

fn irregular(word: &str) -> Option<&'static str> {
    Some(match word {
        "sky" | "skies" => "sky",
        "dying" => "die",
        "lying" => "lie",
        "tying" => "tie",
        "news" => "news",
        "innings" | "inning" => "inning",
        "outings" | "outing" => "outing",
        "cannings" | "canning" => "canning",
        "howe" => "howe",
        "proceed" => "proceed",
        "exceed" => "exceed",
        "succeed" => "succeed",
        _ => return None,
    })
}

/// Step 1a: plurals.
fn plural(word: &mut String) {
    if word.ends_with("ies") && word.len() == 4 {
        word.pop();
    } else if word.ends_with("sses") || word.ends_with("ies") {
        word.truncate(word.len() - 2);
    } else if word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
}

/// Step 1b: `-eed`, `-ed`, `-ing`, and what the stem needs after losing one.
fn past(word: &mut String) {
    if word.ends_with("ied") {
        word.truncate(word.len() - if word.len() == 4 { 1 } else { 2 });
        return;
    }
    if let Some(stem) = word.strip_suffix("eed") {
        if measure(stem) > 0 {
            word.pop();
        }
        return;
    }
    let Some(stem) = word.strip_suffix("ed").or_else(|| word.strip_suffix("ing")) else { return };
    if !consonants(stem).contains(&false) {
        return;
    }
    word.truncate(stem.len());
    if word.ends_with("at") || word.ends_with("bl") || word.ends_with("iz") {
        word.push('e');
    } else if ends_double_consonant(word) {
        if !word.ends_with(['l', 's', 'z']) {
            word.pop();
        }
    } else if measure(word) == 1 && ends_cvc(word) {
        word.push('e');
    }
}

/// Step 1c: `-y` becomes `-i` after a consonant that is not the only letter before it.
fn final_y(word: &mut String) {
    if let Some(stem) = word.strip_suffix('y')
        && stem.len() > 1
        && consonants(stem).last() == Some(&true)
    {
        word.pop();
        word.push('i');
    }
}

const STEP2: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("fulli", "ful"),
    ("logi", "log"),
];

const STEP3: &[(&str, &str)] = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

const STEP4: &[(&str, &str)] = &[
    ("al", ""),
    ("ance", ""),
    ("ence", ""),
    ("er", ""),
    ("ic", ""),
    ("able", ""),
    ("ible", ""),
    ("ant", ""),
    ("ement", ""),
    ("ment", ""),
    ("ent", ""),
    ("ion", ""),
    ("ou", ""),
    ("ism", ""),
    ("ate", ""),
    ("iti", ""),
    ("ous", ""),
    ("ive", ""),
    ("ize", ""),
];

/// Step 2: double suffixes. `-alli` goes first and the result through the step again; the l of `-logi`
/// belongs to the stem, so that "geologi" is handled as "archaeologi" is.
fn double_suffix(word: &mut String) {
    while word.strip_suffix("alli").is_some_and(|stem| measure(stem) > 0) {
        word.truncate(word.len() - 2);
    }
    let whole = word.clone();
    apply(word, STEP2, |stem, suffix| {
        let stem = if suffix == "logi" { &whole[..whole.len() - 3] } else { stem };
        measure(stem) > 0
    });
}

/// Step 5a: final `-e`.
fn final_e(word: &mut String) {
    if let Some(stem) = word.strip_suffix('e') {
        let m = measure(stem);
        if m > 1 || (m == 1 && !ends_cvc(stem)) {
            word.pop();
        }
    }
}

/// Replaces the first suffix of the list that the word ends with, if `condition(stem, suffix)` holds;
/// later ones are not tried.
fn apply(word: &mut String, rules: &[(&str, &str)], condition: impl Fn(&str, &str) -> bool) {
    let Some((suffix, replacement)) = rules.iter().find(|(suffix, _)| word.ends_with(suffix)) else { return };
    let stem = word.len() - suffix.len();
    if condition(&word[..stem], suffix) {
        word.truncate(stem);
        word.push_str(replacement);
    }
}

/// For each letter, whether it is a consonant: not a, e, i, o, u, nor a y after a consonant.
fn consonants(word: &str) -> Vec<bool> {
    let mut flags: Vec<bool> = Vec::with_capacity(word.len());
    for letter in word.bytes() {
        flags.push(match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => flags.last() != Some(&true),
            _ => true,
        });
    }
    flags
}

/// Porter's m: how often a vowel is followed by a consonant.
fn measure(stem: &str) -> usize {
    consonants(stem).windows(2).filter(|pair| !pair[0] && pair[1]).count()
}

/// Porter's *d.
fn ends_double_consonant(word: &str) -> bool {
    let bytes = word.as_bytes();
    bytes.len() >= 2
        && bytes[bytes.len() - 1] == bytes[bytes.len() - 2]
        && consonants(word).ends_with(&[true])
}

/// Porter's *o: consonant, vowel, consonant other than w, x, y; or a two-letter vowel, consonant.
fn ends_cvc(word: &str) -> bool {
    let flags = consonants(word);
    match flags.len() {
        2 => flags == [false, true],
        _ => flags.ends_with(&[true, false, true]) && !word.ends_with(['w', 'x', 'y']),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn papers_examples() {
        for (word, expected) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("dies", "die"),
            ("agreed", "agre"),
            ("plastered", "plaster"),
            ("motoring", "motor"),
            ("hopping", "hop"),
            ("falling", "fall"),
            ("filing", "file"),
            ("happy", "happi"),
            ("enjoy", "enjoy"),
            ("relational", "relat"),
            ("radically", "radic"),
            ("geology", "geolog"),
            ("electriciti", "electr"),
            ("adoption", "adopt"),
            ("controlling", "control"),
            ("skies", "sky"),
        ] {
            assert_eq!(stem(word), expected, "{word}");
        }
    }
}
