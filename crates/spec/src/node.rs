//! The file as a tree in which every value knows its path and where it was written.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where something was written: in the file (source 0) or in the n-th `--set` (source n).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At {
    pub source: usize,
    /// Bytes.
    pub span: Range<usize>,
}

/// A value with its path (`stages.ppo.kl_coef`) and place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub path: String,
    pub at: At,
    pub content: Content,
}

/// What a [`Node`] holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Text(String),
    Integer(i128),
    Float(f64),
    Boolean(bool),
    /// Any date or time; no key takes one.
    Date(String),
    List(Vec<Node>),
    /// In the order of the file.
    Table(Vec<Entry>),
}

/// A key of a table, with the place of the key itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub name: String,
    pub at: At,
    pub node: Node,
}

impl Node {
    /// The whole file.
    pub fn document(table: &Spanned<DeTable<'_>>) -> Self {
        let at = At { source: 0, span: table.span() };
        Node { path: String::new(), content: Content::Table(entries("", table.get_ref(), 0, 0)), at }
    }

    /// One value; `offset` is where its text starts in its source.
    pub fn value(path: String, value: &Spanned<DeValue<'_>>, source: usize, offset: usize) -> Self {
        let at = place(&value.span(), source, offset);
        let content = match value.get_ref() {
            DeValue::String(text) => Content::Text(text.to_string()),
            DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Content::Integer(number),
                Err(_) => Content::Float(f64::INFINITY),
            },
            DeValue::Float(number) => Content::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(value) => Content::Boolean(*value),
            DeValue::Datetime(date) => Content::Date(date.to_string()),
            DeValue::Array(items) => Content::List(
                items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| Node::value(format!("{path}[{index}]"), item, source, offset))
                    .collect(),
            ),
            DeValue::Table(table) => Content::Table(entries(&path, table, source, offset)),
        };
        Node { path, at, content }
    }

    /// The entries, when it is a table.
    pub fn entries(&self) -> Option<&[Entry]> {
        match &self.content {
            Content::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of a key, when it is a table that has it.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.name == name).map(|entry| &entry.node)
    }

    /// Type and value for people: `string "a"`.
    pub fn describe(&self) -> String {
        match &self.content {
            Content::Text(_) => format!("the string {}", self.show()),
            Content::Integer(_) => format!("the integer {}", self.show()),
            Content::Float(_) => format!("the number {}", self.show()),
            Content::Boolean(_) => format!("the boolean {}", self.show()),
            Content::Date(_) => format!("the date {}", self.show()),
            Content::List(_) => "a list".into(),
            Content::Table(_) => "a table".into(),
        }
    }

    /// The value as it would be written.
    pub fn show(&self) -> String {
        match &self.content {
            Content::Text(text) => format!("{text:?}"),
            Content::Integer(number) => number.to_string(),
            Content::Float(number) => format!("{number:?}"),
            Content::Boolean(value) => value.to_string(),
            Content::Date(date) => date.clone(),
            Content::List(_) => "[…]".into(),
            Content::Table(_) => "{…}".into(),
        }
    }

    /// Calls `visit` with the path and place of this value and of all inside it.
    pub fn walk(&self, visit: &mut dyn FnMut(&str, &At)) {
        visit(&self.path, &self.at);
        match &self.content {
            Content::List(items) => items.iter().for_each(|item| item.walk(visit)),
            Content::Table(entries) => entries.iter().for_each(|entry| entry.node.walk(visit)),
            _ => {}
        }
    }
}

/// `table.key`, without a leading dot at the top.
pub fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn place(span: &Range<usize>, source: usize, offset: usize) -> At {
    At { source, span: span.start + offset..span.end + offset }
}

fn entries(path: &str, table: &DeTable<'_>, source: usize, offset: usize) -> Vec<Entry> {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| Entry {
            name: key.get_ref().to_string(),
            at: place(&key.span(), source, offset),
            node: Node::value(join(path, key.get_ref()), value, source, offset),
        })
        .collect();
    entries.sort_by_key(|entry| entry.at.span.start);
    entries
}
