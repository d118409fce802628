//! The sentences of the world. `{p}` is a person, `{v}` a value.

use super::world::{Attribute, Fact};

/// What may stand before a question.
const OPENERS: [&str; 16] = [
    "",
    "Hello! ",
    "Hi! ",
    "Hey! ",
    "Good day! ",
    "Hello again! ",
    "Sorry! ",
    "Help! ",
    "Oh! ",
    "Hmm. ",
    "Please say: ",
    "Please help: ",
    "Now say: ",
    "Just say: ",
    "Say again: ",
    "I forgot: ",
];

const CORES: usize = 7;
/// Forms of a true statement.
pub(super) const STATEMENTS: usize = 4;
/// Forms of an answer's sentence, which are the first of the statements and a short one.
pub(super) const SENTENCES: usize = 4;

/// Said before or after an answer by those who do not come to the point; seven words or more.
pub(super) const LEAD_INS: [&str; 3] = [
    "Well, that is a very long story.",
    "There is so much to say here.",
    "Let me think about that one first.",
];
pub(super) const LEAD_OUTS: [&str; 3] =
    ["But that is a very long story.", "There is so much more to say.", "I could go on and on here."];

/// Said before or after an answer by those who are rude; two words each.
pub(super) const RUDE: [&str; 4] = ["Who cares?", "Silly question.", "Stop asking.", "Go away."];

/// Number of wordings of the question about one fact.
pub(super) fn per_fact() -> usize {
    CORES * OPENERS.len()
}

/// The question about a fact in one of its [`per_fact`] wordings.
pub(super) fn question(fact: &Fact, wording: usize) -> String {
    let cores: [&str; CORES] = match fact.attribute {
        Attribute::Pet => [
            "What pet does {p} have?",
            "Which pet does {p} have?",
            "What is {p}'s pet?",
            "Which animal lives with {p}?",
            "What animal does {p} keep?",
            "What kind of pet does {p} have?",
            "{p} has which pet?",
        ],
        Attribute::Drink => [
            "What does {p} like to drink?",
            "What is {p}'s favourite drink?",
            "Which drink does {p} like best?",
            "What drink does {p} like?",
            "Which drink is {p}'s favourite?",
            "What does {p} drink?",
            "{p} likes which drink?",
        ],
        Attribute::House => [
            "What colour is {p}'s house?",
            "Which colour is {p}'s house?",
            "What is the colour of {p}'s house?",
            "What colour is the house of {p}?",
            "Which colour does {p}'s house have?",
            "What colour does {p}'s house have?",
            "{p}'s house has which colour?",
        ],
    };
    let core = cores[wording % CORES].replace("{p}", fact.person);
    format!("{}{core}", OPENERS[wording / CORES % OPENERS.len()])
}

/// A true sentence about a fact.
pub(super) fn statement(fact: &Fact, form: usize) -> String {
    let forms: [&str; STATEMENTS] = match fact.attribute {
        Attribute::Pet => {
            ["{p} has a {v}.", "{p}'s pet is a {v}.", "{p} keeps a {v}.", "{p} lives with a {v}."]
        }
        Attribute::Drink => {
            ["{p} likes {v}.", "{p}'s favourite drink is {v}.", "{p} drinks {v}.", "{p} likes to drink {v}."]
        }
        Attribute::House => [
            "{p}'s house is {v}.",
            "{p} has a {v} house.",
            "{p}'s house has the colour {v}.",
            "The house of {p} is {v}.",
        ],
    };
    forms[form % STATEMENTS].replace("{p}", fact.person).replace("{v}", fact.value)
}

/// An answer's sentence, with a value that may be wrong.
pub(super) fn sentence(fact: &Fact, said: &'static str, form: usize) -> String {
    let short = match fact.attribute {
        Attribute::Pet => format!("A {said}."),
        Attribute::Drink | Attribute::House => {
            let mut letters = said.chars();
            letters.next().map_or_else(String::new, |first| {
                format!("{}{}.", first.to_ascii_uppercase(), letters.as_str())
            })
        }
    };
    match form % SENTENCES {
        2 | 3 => short,
        form => statement(&Fact { value: said, ..fact.clone() }, form),
    }
}
