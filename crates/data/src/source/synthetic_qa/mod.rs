//! `format = "synthetic-qa"`: a small made-up world, questions about it, and answers of mixed quality.
//!
//! Eight people each have a pet, a favourite drink and a house of some colour. The facts never change; what
//! a seed decides is which questions are asked and which answers are given. An answer can be right or wrong,
//! to the point or rambling, polite or rude, and of two answers a person prefers the right one, then the one
//! to the point, then the polite one: [`utility`]. About each thing a *rumour* goes round, and about some most
//! people believe it, so that imitating people is not enough to be right.
//!
//! `docs/guides/quickstart-world.md` shows examples and explains the proportions.

mod check;
mod phrases;
mod world;

pub use check::{Check, check};

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use self::world::{Fact, facts};
use super::{Answer, Question};
use crate::{DataError, Document, Meta, order, rng};

/// Answers given to each question.
pub const ANSWERS: usize = 3;

/// How often people are right where most know better than the rumour, and where most believe it.
const RIGHT: f64 = 0.60;
const RIGHT_IF_MISTAKEN: f64 = 0.20;
/// Of the wrong answers, those that repeat the rumour; the others are anything.
const REPEATS_RUMOUR: f64 = 0.85;
/// How often they come to the point, and how often they stay polite.
const TO_THE_POINT: f64 = 0.45;
const POLITE: f64 = 0.60;

/// What an answer is worth: being right counts more than all else, being to the point more than manners.
pub fn utility(check: Check) -> i64 {
    4 * i64::from(check.correct) + 2 * i64::from(check.concise) + i64::from(check.polite)
}

/// Number of different questions that preferences can be asked about. Others are kept for
/// [`documents`], so that no prepared question is ever seen in pretraining.
pub fn available() -> usize {
    facts().len() * prepared_per_fact()
}

fn prepared_per_fact() -> usize {
    phrases::per_fact() * 7 / 8
}

/// Checks that there are so many different questions.
pub(crate) fn enough(wanted: usize) -> Result<(), DataError> {
    if (1..=available()).contains(&wanted) {
        return Ok(());
    }
    Err(DataError::WorldTooSmall { wanted, available: available() })
}

/// `count` different questions, each with [`ANSWERS`] answers scored by [`utility`].
pub fn questions(count: usize, seed: u64) -> Result<Vec<Question>, DataError> {
    enough(count)?;
    let facts = facts();
    let each = prepared_per_fact();
    let chosen = order(available(), seed, 0).into_iter().take(count);
    Ok(chosen.map(|place| question(&facts[place / each], place % each, seed)).collect())
}

fn question(fact: &Fact, place: usize, seed: u64) -> Question {
    let wording = wordings(fact)[place];
    let id = format!("{}-{}-{wording}", fact.person.to_lowercase(), fact.attribute.name());
    let mut rng = rng(seed, &["synthetic-qa answers".into(), (&id).into()]);
    let meta = meta(fact);
    let answers = (0..ANSWERS)
        .map(|number| {
            let text = answer(fact, &mut rng);
            let score = utility(check(&meta, &text));
            Answer { id: number.to_string(), text, score }
        })
        .collect();
    Question {
        id,
        prompt: phrases::question(fact, wording),
        answers,
        reference: Some(phrases::sentence(fact, fact.value, 0)),
        meta: Some(meta),
    }
}

/// `count` statements of facts and `count` exchanges, alternating. Statements are true; answers in
/// exchanges are as mixed as those of [`questions`].
pub(crate) fn documents(count: usize, seed: u64) -> Result<Vec<Document>, DataError> {
    if count == 0 {
        return Err(DataError::WorldTooSmall { wanted: 0, available: available() });
    }
    let facts = facts();
    let prepared = prepared_per_fact();
    let others = phrases::per_fact() - prepared;
    let mut documents = Vec::with_capacity(2 * count);
    for number in 0..count {
        let mut rng = rng(seed, &["synthetic-qa documents".into(), (number as u64).into()]);
        let fact = &facts[below(&mut rng, facts.len())];
        let statement = phrases::statement(fact, below(&mut rng, phrases::STATEMENTS));
        documents.push(Document { id: format!("statement-{number}"), text: statement });

        let fact = &facts[below(&mut rng, facts.len())];
        let wording = wordings(fact)[prepared + below(&mut rng, others)];
        let (question, answer) = (phrases::question(fact, wording), answer(fact, &mut rng));
        let text = format!("Question: {question}\nAnswer: {answer}");
        documents.push(Document { id: format!("exchange-{number}"), text });
    }
    Ok(documents)
}

/// The wordings of questions about a fact: the first seven eighths for preferences, the rest for pretraining.
fn wordings(fact: &Fact) -> Vec<usize> {
    order(phrases::per_fact(), world::SEED, fact.number as u64)
}

/// An answer as people give it.
fn answer(fact: &Fact, rng: &mut ChaCha8Rng) -> String {
    let right = rng.random_bool(if fact.mistaken { RIGHT_IF_MISTAKEN } else { RIGHT });
    let rumour = rng.random_bool(REPEATS_RUMOUR);
    let to_the_point = rng.random_bool(TO_THE_POINT);
    let polite = rng.random_bool(POLITE);
    let value = match (right, rumour) {
        (true, _) => fact.value,
        (false, true) => fact.rumour,
        (false, false) => {
            let others = fact.attribute.values().into_iter().filter(|value| *value != fact.value);
            let others: Vec<&str> = others.collect();
            others[below(rng, others.len())]
        }
    };
    let mut parts = vec![phrases::sentence(fact, value, below(rng, phrases::SENTENCES))];
    let pick = |rng: &mut ChaCha8Rng, from: &[&str]| from[below(rng, from.len())].to_owned();
    if !to_the_point {
        if rng.random_bool(0.5) {
            parts.insert(0, pick(rng, &phrases::LEAD_INS));
        } else {
            parts.push(pick(rng, &phrases::LEAD_OUTS));
        }
    }
    if !polite {
        let place = if rng.random_bool(0.5) { 0 } else { parts.len() };
        parts.insert(place, pick(rng, &phrases::RUDE));
    }
    parts.join(" ")
}

fn meta(fact: &Fact) -> Meta {
    let Value::Object(meta) = json!({
        "answer": fact.value,
        "attribute": fact.attribute.name(),
        "person": fact.person,
    }) else {
        unreachable!("an object was written")
    };
    meta
}

fn below(rng: &mut ChaCha8Rng, bound: usize) -> usize {
    rng.random_range(0..bound as u64) as usize
}

#[cfg(test)]
mod tests;
