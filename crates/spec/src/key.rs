//! What is known about one key of a table, apart from its value: type, limits, unit, effect.

use serde::Serialize;

use crate::units::Unit;

/// A key of a table. The one declaration is in the `section!` of its table.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    pub name: &'static str,
    /// The doc comment of the field.
    pub doc: &'static str,
    pub ty: Type,
    pub rule: Rule,
}

/// The type that a key's value must have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Type {
    Boolean,
    Integer,
    Number,
    Text,
    /// List of strings.
    Names,
    /// Table of numbers.
    Shares,
    /// One of a few words, each with what it means.
    Choice(&'static [Choice]),
    /// A word or a list of strings.
    ChoiceOrNames(&'static [Choice]),
    /// `auto`, `cpu`, `cuda`, `cuda:1`.
    Device,
}

/// A word that a key may have as value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Choice {
    pub name: &'static str,
    pub doc: &'static str,
}

impl Type {
    /// For people: "a number".
    pub fn describe(&self) -> String {
        match self {
            Type::Boolean => "true or false".into(),
            Type::Integer => "an integer".into(),
            Type::Number => "a number".into(),
            Type::Text => "a string".into(),
            Type::Names => "a list of strings".into(),
            Type::Shares => "a table of numbers".into(),
            Type::Choice(choices) => one_of(choices),
            Type::ChoiceOrNames(choices) => format!("{} or a list of strings", one_of(choices)),
            Type::Device => "`auto`, `cpu`, `cuda` or `cuda:N`".into(),
        }
    }
}

fn one_of(choices: &[Choice]) -> String {
    let names: Vec<_> = choices.iter().map(|choice| format!("`{}`", choice.name)).collect();
    match names.as_slice() {
        [one] => one.clone(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
        [] => String::new(),
    }
}

/// Whether a key can change what a stage makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Part of the stage's fingerprint: another value makes the stage run again.
    Result,
    /// How the stage is run, not what comes out: another value makes nothing run again.
    Execution,
}

/// An end of a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    pub value: f64,
    /// Whether the value itself is allowed.
    pub inclusive: bool,
}

/// Limits on a value, built up by chaining: `at_least(1.0).execution()`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    pub min: Option<Bound>,
    pub max: Option<Bound>,
    pub unit: Option<Unit>,
    pub effect: Effect,
    /// The key must be in the file.
    pub required: bool,
    /// The value names stages of these kinds; an empty list allows every kind.
    pub stages: Option<&'static [&'static str]>,
    /// The value names a split of the stage that `data` names.
    pub split: bool,
    /// May contain `${`, which elsewhere is taken for a variable.
    pub free_text: bool,
}

/// No limits, result-affecting.
pub const fn any() -> Rule {
    Rule {
        min: None,
        max: None,
        unit: None,
        effect: Effect::Result,
        required: false,
        stages: None,
        split: false,
        free_text: false,
    }
}

pub const fn at_least(value: f64) -> Rule {
    any().at_least(value)
}

pub const fn at_most(value: f64) -> Rule {
    any().at_most(value)
}

/// Strictly above.
pub const fn above(value: f64) -> Rule {
    Rule { min: Some(Bound { value, inclusive: false }), ..any() }
}

/// A share from 0 to 1; takes `"5%"`.
pub const fn ratio() -> Rule {
    Rule { unit: Some(Unit::Ratio), ..any() }.at_least(0.0).at_most(1.0)
}

/// A duration in seconds; takes `"2h"`.
pub const fn duration() -> Rule {
    Rule { unit: Some(Unit::Seconds), ..any() }.at_least(0.0)
}

/// A size in bytes; takes `"40 GB"`.
pub const fn size() -> Rule {
    Rule { unit: Some(Unit::Bytes), ..any() }.at_least(0.0)
}

/// The name, or names, of stages of the given kinds.
pub const fn stage(kinds: &'static [&'static str]) -> Rule {
    Rule { stages: Some(kinds), ..any() }
}

/// The name of a split.
pub const fn split() -> Rule {
    Rule { split: true, ..any() }
}

/// Text that people or models read.
pub const fn free_text() -> Rule {
    Rule { free_text: true, ..any() }
}

/// Not part of the fingerprint.
pub const fn execution() -> Rule {
    any().execution()
}

impl Rule {
    pub const fn at_least(self, value: f64) -> Self {
        Self { min: Some(Bound { value, inclusive: true }), ..self }
    }

    pub const fn at_most(self, value: f64) -> Self {
        Self { max: Some(Bound { value, inclusive: true }), ..self }
    }

    pub const fn below(self, value: f64) -> Self {
        Self { max: Some(Bound { value, inclusive: false }), ..self }
    }

    pub const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    pub const fn execution(self) -> Self {
        Self { effect: Effect::Execution, ..self }
    }

    /// Whether a number is inside the range.
    pub fn allows(&self, value: f64) -> bool {
        let above = self.min.is_none_or(|min| value > min.value || (min.inclusive && value == min.value));
        let below = self.max.is_none_or(|max| value < max.value || (max.inclusive && value == max.value));
        value.is_finite() && above && below
    }

    /// The range for people: `at least 0 and below 1`; `None` when there is no limit.
    pub fn range(&self) -> Option<String> {
        let end = |bound: Option<Bound>, inclusive: &str, exclusive: &str| {
            bound.map(|end| format!("{} {}", if end.inclusive { inclusive } else { exclusive }, end.value))
        };
        let ends: Vec<_> = [end(self.min, "at least", "above"), end(self.max, "at most", "below")]
            .into_iter()
            .flatten()
            .collect();
        (!ends.is_empty()).then(|| ends.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert!(at_least(0.0).allows(0.0));
        assert!(!above(0.0).allows(0.0));
        assert!(!ratio().allows(1.5));
        assert!(!any().allows(f64::NAN));
        assert_eq!(at_least(0.0).below(1.0).range().as_deref(), Some("at least 0 and below 1"));
        assert_eq!(any().range(), None);
    }
}
