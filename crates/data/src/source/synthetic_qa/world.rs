//! The facts, which are the same in every run.

use crate::order;

/// Seed of the world itself, not of what is asked and said in it.
pub(super) const SEED: u64 = 2026;

/// Of the facts, the share about which a rumour goes round.
const RUMOURS: f64 = 0.4;

pub(super) const PEOPLE: [&str; 24] = [
    "Anna", "Ben", "Cara", "Dan", "Ella", "Finn", "Gus", "Hana", "Ivan", "Jill", "Kim", "Leo", "Mia", "Ned",
    "Olga", "Paul", "Rosa", "Sam", "Tess", "Uma", "Vera", "Walt", "Yara", "Zoe",
];

/// What can be asked about a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attribute {
    Pet,
    Drink,
    House,
    Job,
}

impl Attribute {
    pub const ALL: [Attribute; 4] = [Attribute::Pet, Attribute::Drink, Attribute::House, Attribute::Job];

    pub fn name(self) -> &'static str {
        match self {
            Attribute::Pet => "pet",
            Attribute::Drink => "drink",
            Attribute::House => "house",
            Attribute::Job => "job",
        }
    }

    /// The values it can take. No word stands in two lists.
    pub fn values(self) -> [&'static str; 8] {
        match self {
            Attribute::Pet => ["cat", "dog", "horse", "goat", "duck", "fish", "rabbit", "parrot"],
            Attribute::Drink => ["tea", "coffee", "milk", "water", "juice", "cocoa", "cider", "lemonade"],
            Attribute::House => ["red", "blue", "green", "yellow", "black", "white", "pink", "brown"],
            Attribute::Job => ["baker", "farmer", "nurse", "pilot", "teacher", "painter", "sailor", "doctor"],
        }
    }
}

/// One thing that is so.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fact {
    pub number: usize,
    pub person: &'static str,
    pub attribute: Attribute,
    pub value: &'static str,
    /// A wrong value that most people believe.
    pub rumour: Option<&'static str>,
}

/// All facts, by attribute and person. Each value holds for as many people as any other.
pub(super) fn facts() -> Vec<Fact> {
    let mut facts = Vec::with_capacity(Attribute::ALL.len() * PEOPLE.len());
    for (kind, attribute) in Attribute::ALL.into_iter().enumerate() {
        let values = attribute.values();
        let places = order(PEOPLE.len(), SEED, 1_000 + kind as u64);
        for (person, place) in PEOPLE.into_iter().zip(places) {
            let value = values[place % values.len()];
            facts.push(Fact { number: facts.len(), person, attribute, value, rumour: None });
        }
    }
    let rumours = (RUMOURS * facts.len() as f64).round() as usize;
    for (nth, at) in order(facts.len(), SEED, 2_000).into_iter().take(rumours).enumerate() {
        let fact = &mut facts[at];
        let values = fact.attribute.values();
        let own = values.iter().position(|value| *value == fact.value).unwrap_or(0);
        fact.rumour = Some(values[(own + 1 + nth % (values.len() - 1)) % values.len()]);
    }
    facts
}
