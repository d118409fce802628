use std::collections::{BTreeSet, HashSet};

use super::*;
use crate::source::synthetic_qa::world::{Attribute, PEOPLE};

fn meta_of(answer: &str) -> Meta {
    let Value::Object(meta) = json!({ "answer": answer, "attribute": "pet", "person": "Anna" }) else {
        unreachable!()
    };
    meta
}

fn verdict(answer: &str) -> (bool, bool, bool) {
    let Check { correct, concise, polite } = check(&meta_of("cat"), answer);
    (correct, concise, polite)
}

#[test]
fn the_rule_judges_as_a_person_would() {
    assert_eq!(verdict(" Anna has a cat."), (true, true, true));
    assert_eq!(verdict("Cat"), (true, true, true));
    assert_eq!(verdict("Anna has a dog."), (false, true, true));
    assert_eq!(verdict("Anna has a cat and a dog."), (false, true, true));
    assert_eq!(verdict("Ben has a cat."), (false, true, true));
    assert_eq!(verdict("Who cares? A cat."), (true, true, false));
    assert_eq!(verdict("Let me think about that one first. A cat."), (true, false, true));
    assert_eq!(verdict("Anna has a category."), (false, true, true));
    assert_eq!(verdict(""), (false, false, false));
    assert_eq!(verdict("cat cat cat cat cat cat cat cat cat"), (true, false, true));
}

#[test]
fn every_generated_answer_is_what_it_was_meant_to_be() {
    let facts = facts();
    let mut rng = rng(1, &[]);
    for fact in &facts {
        for form in 0..phrases::SENTENCES {
            let plain = phrases::sentence(fact, fact.value, form);
            assert_eq!(utility(check(&meta(fact), &plain)), 7, "{plain}");
            for rude in phrases::RUDE {
                for text in [format!("{rude} {plain}"), format!("{plain} {rude}")] {
                    assert_eq!(utility(check(&meta(fact), &text)), 6, "{text}");
                }
            }
            for lead in phrases::LEAD_INS.iter().chain(&phrases::LEAD_OUTS) {
                assert_eq!(utility(check(&meta(fact), &format!("{lead} {plain}"))), 5, "{lead} {plain}");
            }
        }
        for form in 0..phrases::STATEMENTS {
            assert!(check(&meta(fact), &phrases::statement(fact, form)).correct);
        }
        let said = answer(fact, &mut rng);
        assert!(said.ends_with(['.', '?']), "{said}");
    }
}

#[test]
fn the_world_is_balanced_and_its_words_are_distinct() {
    let facts = facts();
    assert_eq!(facts.len(), 24);
    let mut words = HashSet::new();
    for attribute in Attribute::ALL {
        for value in attribute.values() {
            assert!(words.insert(value), "{value} stands twice");
            let holds = facts.iter().filter(|fact| fact.value == value).count();
            assert!((1..=2).contains(&holds), "{value}");
        }
    }
    assert!(PEOPLE.iter().all(|person| !words.contains(person.to_lowercase().as_str())));
    for Fact { value, rumour, attribute, .. } in &facts {
        assert!(rumour != value && attribute.values().contains(rumour));
    }
    assert_eq!(facts.iter().filter(|fact| fact.mistaken).count(), 10);
}

#[test]
fn no_prepared_question_is_in_the_pretraining_text() {
    let all = questions(available(), 3).expect("that many");
    let prompts: BTreeSet<&str> = all.iter().map(|question| question.prompt.as_str()).collect();
    assert_eq!(prompts.len(), available());
    for document in documents(2_000, 4).expect("documents") {
        let asked = document.text.lines().next().and_then(|line| line.strip_prefix("Question: "));
        assert!(asked.is_none_or(|asked| !prompts.contains(asked)), "{}", document.text);
    }
}

#[test]
fn the_seed_decides_what_is_asked_and_nothing_else_does() {
    assert_eq!(questions(50, 1).expect("50"), questions(50, 1).expect("50"));
    assert_eq!(documents(50, 1).expect("50"), documents(50, 1).expect("50"));
    assert_ne!(questions(50, 1).expect("50"), questions(50, 2).expect("50"));
    // A longer run begins with the shorter one.
    assert_eq!(questions(50, 1).expect("50"), questions(80, 1).expect("80")[..50]);
    assert_eq!(documents(50, 1).expect("50"), documents(80, 1).expect("80")[..100]);
}

#[test]
fn too_many_questions_are_refused_with_the_number_there_are() {
    let error = questions(available() + 1, 1).expect_err("too many");
    assert!(error.to_string().contains(&available().to_string()), "{error}");
    assert!(questions(0, 1).is_err());
}

#[test]
fn people_are_imperfect_in_the_documented_proportions() {
    let questions = questions(available(), 5).expect("that many");
    let checks: Vec<Check> = questions
        .iter()
        .flat_map(|q| q.answers.iter().map(|a| check(q.meta.as_ref().expect("meta"), &a.text)))
        .collect();
    let share = |of: fn(&Check) -> bool| checks.iter().filter(|c| of(c)).count() as f64 / checks.len() as f64;
    // 14 of 24 facts at 0.60 and 10 at 0.20.
    assert!((share(|c| c.correct) - 0.433).abs() < 0.02);
    assert!((share(|c| c.concise) - 0.45).abs() < 0.02);
    assert!((share(|c| c.polite) - 0.60).abs() < 0.02);
}
