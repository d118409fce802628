//! The types that a key's value can have, and how each is read from the file.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::key::{Rule, Type};
use crate::mistake::{Mistakes, Problem};
use crate::nearest::nearest;
use crate::node::{Content, Node};

/// A value as the rest of the program looks at it when it walks a table.
pub trait Value {
    /// Its canonical form, the one that fingerprints are made of.
    fn to_json(&self) -> Json;

    /// The strings in it, where a key can name stages or splits.
    fn names(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// A value that can be read from the file.
pub trait Read: Value + Sized {
    const TYPE: Type;

    /// `None` after noting in `out` what is wrong.
    fn read(node: &Node, rule: &Rule, out: &mut Mistakes) -> Option<Self>;
}

fn wrong_type(node: &Node, expected: &Type, rule: &Rule, out: &mut Mistakes) {
    let expected = match rule.unit {
        Some(unit) => unit.example().to_owned(),
        None => expected.describe(),
    };
    out.note(&node.at, Problem::WrongType { key: node.path.clone(), expected, found: node.describe() });
}

/// A number in range, with its unit resolved.
fn number(node: &Node, ty: &Type, rule: &Rule, out: &mut Mistakes) -> Option<f64> {
    let value = match (&node.content, rule.unit) {
        (Content::Integer(value), _) => *value as f64,
        (Content::Float(value), _) if *ty == Type::Number || rule.unit.is_some() => *value,
        (Content::Text(text), Some(unit)) => match unit.parse(text) {
            Some(value) => value,
            None => {
                out.note(&node.at, Problem::BadUnit { key: node.path.clone(), value: text.clone(), unit });
                return None;
            }
        },
        _ => {
            wrong_type(node, ty, rule, out);
            return None;
        }
    };
    if rule.allows(value) {
        return Some(value);
    }
    let allowed = rule.range().unwrap_or_else(|| "a finite number".into());
    out.note(&node.at, Problem::OutOfRange { key: node.path.clone(), value: node.show(), allowed });
    None
}

impl Value for f64 {
    fn to_json(&self) -> Json {
        Json::from(*self)
    }
}

impl Read for f64 {
    const TYPE: Type = Type::Number;

    fn read(node: &Node, rule: &Rule, out: &mut Mistakes) -> Option<Self> {
        number(node, &Self::TYPE, rule, out)
    }
}

macro_rules! integer {
    ($($ty:ty),*) => {$(
        impl Value for $ty {
            fn to_json(&self) -> Json {
                Json::from(*self)
            }
        }

        impl Read for $ty {
            const TYPE: Type = Type::Integer;

            fn read(node: &Node, rule: &Rule, out: &mut Mistakes) -> Option<Self> {
                let value = number(node, &Self::TYPE, rule, out)?;
                let exact = match node.content {
                    Content::Integer(value) => <$ty>::try_from(value).ok(),
                    _ => (value < 2f64.powi(53)).then_some(value.round() as $ty),
                };
                if exact.is_none() {
                    let allowed = format!("from {} to {}", <$ty>::MIN, <$ty>::MAX);
                    out.note(&node.at, Problem::OutOfRange { key: node.path.clone(), value: node.show(), allowed });
                }
                exact
            }
        }
    )*};
}
integer!(usize, u64, u32, i64);

impl<T: Value> Value for Option<T> {
    fn to_json(&self) -> Json {
        self.as_ref().map_or(Json::Null, Value::to_json)
    }
}

impl<T: Read> Read for Option<T> {
    const TYPE: Type = T::TYPE;

    fn read(node: &Node, rule: &Rule, out: &mut Mistakes) -> Option<Self> {
        T::read(node, rule, out).map(Some)
    }
}

impl Value for bool {
    fn to_json(&self) -> Json {
        Json::from(*self)
    }
}

impl Read for bool {
    const TYPE: Type = Type::Boolean;

    fn read(node: &Node, rule: &Rule, out: &mut Mistakes) -> Option<Self> {
        match node.content {
            Content::Boolean(value) => Some(value),
            _ => {
                wrong_type(node, &Self::TYPE, rule, out);
                None
            }
        }
    }
}

/// `${name}`, which people know from other tools and which means nothing here.
fn variable(text: &str) -> Option<&str> {
    let start = text.find("${")?;
    let end = text[start..].find('}')?;
    Some(&text[start..=start + end])
}

fn text(node: &Node, ty: &Type, rule: &Rule, out: &mut Mistakes) -> Option<String> {
    let Content::Text(text) = &node.content else {
        wrong_type(node, ty, rule, out);
        return None;
    };
    if let (false, Some(variable)) = (rule.free_text, variable(text)) {
        out.note(&node.at, Problem::Variable { key: node.path.clone(), variable: variable.into() });
        return None;
    }
    Some(text.clone())
}

impl Value for String {
    fn to_json(&self) -> Json {
        Json::from(self.as_str())
    }

    fn names(&self) -> Vec<&str> {
        if self.is_empty() { Vec::new() } else { vec![self] }
    }
}

impl Read for String {
    const TYPE: Type = Type::Text;

    fn read(node: &Node, rule: &Rule, out: &mut Mistakes) -> Option<Self> {
        text(node, &Self::TYPE, rule, out)
    }
}

impl Value for Vec<String> {
    fn to_json(&self) -> Json {
        Json::from(self.clone())
    }

    fn names(&self) -> Vec<&str> {
        self.iter().map(String::as_str).collect()
    }
}

impl Read for Vec<String> {
    const TYPE: Type = Type::Names;

    fn read(node: &Node, rule: &Rule, out: &mut Mistakes) -> Option<Self> {
        let Content::List(items) = &node.content else {
            wrong_type(node, &Self::TYPE, rule, out);
            return None;
        };
        let texts: Vec<_> = items.iter().map(|item| text(item, &Type::Text, rule, out)).collect();
        texts.into_iter().collect()
    }
}

impl Value for BTreeMap<String, f64> {
    fn to_json(&self) -> Json {
        self.iter()
            .map(|(name, share)| (name.clone(), Json::from(*share)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    fn names(&self) -> Vec<&str> {
        self.keys().map(String::as_str).collect()
    }
}

impl Read for BTreeMap<String, f64> {
    const TYPE: Type = Type::Shares;

    fn read(node: &Node, rule: &Rule, out: &mut Mistakes) -> Option<Self> {
        let Content::Table(table) = &node.content else {
            wrong_type(node, &Self::TYPE, rule, out);
            return None;
        };
        let shares: Vec<_> = table
            .iter()
            .map(|entry| Some((entry.name.clone(), number(&entry.node, &Type::Number, rule, out)?)))
            .collect();
        shares.into_iter().collect()
    }
}

/// One of a few words.
pub(crate) fn choice<T: Copy>(node: &Node, ty: &Type, words: &[(&str, T)], out: &mut Mistakes) -> Option<T> {
    let Content::Text(text) = &node.content else {
        wrong_type(node, ty, &crate::key::any(), out);
        return None;
    };
    let found = words.iter().find(|(word, _)| word == text).map(|(_, value)| *value);
    if found.is_none() {
        let problem = Problem::UnknownWord {
            key: node.path.clone(),
            word: text.clone(),
            expected: ty.describe(),
            nearest: nearest(text, words.iter().map(|(word, _)| *word)).map(str::to_owned),
        };
        out.note(&node.at, problem);
    }
    found
}
