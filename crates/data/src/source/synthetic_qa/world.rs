//! The facts, which are the same in every run.

use crate::order;

/// Seed of the world itself, not of what is asked and said in it.
pub(super) const SEED: u64 = 2026;

/// Of the facts, the share about which most people are wrong.
const MISTAKEN: f64 = 0.4;

pub(super) const PEOPLE: [&str; 8] = ["Anna", "Ben", "Cara", "Dan", "Ella", "Finn", "Gus", "Hana"];

/// What can be asked about a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attribute {
    Pet,
    Drink,
    House,
}

impl Attribute {
    pub const ALL: [Attribute; 3] = [Attribute::Pet, Attribute::Drink, Attribute::House];

    pub fn name(self) -> &'static str {
        match self {
            Attribute::Pet => "pet",
            Attribute::Drink => "drink",
            Attribute::House => "house",
        }
    }

    /// The values it can take. No word stands in two lists.
    pub fn values(self) -> [&'static str; 6] {
        match self {
            Attribute::Pet => ["cat", "dog", "horse", "goat", "duck", "fish"],
            Attribute::Drink => ["tea", "coffee", "milk", "water", "juice", "cocoa"],
            Attribute::House => ["red", "blue", "green", "yellow", "black", "white"],
        }
    }
}

/// One thing that is so, and what some believe instead.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fact {
    pub number: usize,
    pub person: &'static str,
    pub attribute: Attribute,
    pub value: &'static str,
    /// The wrong value that goes round as a rumour.
    pub rumour: &'static str,
    /// Most people believe the rumour.
    pub mistaken: bool,
}

/// All facts, by attribute and person. No value holds for more than two people.
pub(super) fn facts() -> Vec<Fact> {
    let mut facts = Vec::with_capacity(Attribute::ALL.len() * PEOPLE.len());
    for (kind, attribute) in Attribute::ALL.into_iter().enumerate() {
        let values = attribute.values();
        let places = order(PEOPLE.len(), SEED, 1_000 + kind as u64);
        for (person, place) in PEOPLE.into_iter().zip(places) {
            let number = facts.len();
            // Somewhere else in the list, each distance as often as any other.
            let rumour = values[(place + 1 + number % (values.len() - 1)) % values.len()];
            let value = values[place % values.len()];
            facts.push(Fact { number, person, attribute, value, rumour, mistaken: false });
        }
    }
    let mistaken = (MISTAKEN * facts.len() as f64).round() as usize;
    for at in order(facts.len(), SEED, 2_000).into_iter().take(mistaken) {
        facts[at].mistaken = true;
    }
    facts
}
