//! `--set stages.ppo.kl_coef=0.05`: a change of the file's tree before it is read, so that the schema types it.

use std::convert::Infallible;
use std::str::FromStr;

use toml::de::DeValue;

use crate::mistake::{Mistakes, Problem};
use crate::nearest::nearest;
use crate::node::{At, Content, Entry, Node, join};

/// `path=value` as typed. The value is TOML; what is not TOML is taken for a string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override(pub String);

impl FromStr for Override {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl Override {
    /// Writes the value into the tree; `source` is the number of this override's text.
    pub(crate) fn apply(&self, root: &mut Node, source: usize, out: &mut Mistakes) {
        let whole = At { source, span: 0..self.0.len() };
        let fail = |out: &mut Mistakes, why: &str| {
            out.note(&whole, Problem::Override { text: self.0.clone(), why: why.into() });
        };
        let Some((path, value)) = self.0.split_once('=') else {
            return fail(out, "there is no `=` in it");
        };
        let names: Vec<_> = path.trim().split('.').map(str::trim).collect();
        if names.len() < 2 || names.iter().any(|name| name.is_empty()) {
            return fail(out, "the key needs a table in front of it");
        }
        if let (["stages", stage, ..], Some(stages)) =
            (names.as_slice(), root.get("stages").and_then(Node::entries))
            && !stages.iter().any(|entry| entry.name == *stage)
        {
            let known: Vec<_> = stages.iter().map(|entry| entry.name.clone()).collect();
            let nearest = nearest(stage, known.iter().map(String::as_str)).map(str::to_owned);
            out.note(&whole, Problem::UnknownStage { stage: (*stage).into(), nearest, stages: known });
            return;
        }
        let node = self.value(path, value, source);
        if !insert(root, &names, node, &At { source, span: 0..path.len() }) {
            fail(out, "the key in front of the last `.` is not a table");
        }
    }

    fn value(&self, path: &str, text: &str, source: usize) -> Node {
        let offset = self.0.len() - text.len();
        let path = path.trim().to_owned();
        match DeValue::parse(text.trim()) {
            Ok(value) => {
                let spaces = text.len() - text.trim_start().len();
                Node::value(path, &value, source, offset + spaces)
            }
            Err(_) => {
                let at = At { source, span: offset..self.0.len() };
                Node { path, at, content: Content::Text(text.trim().to_owned()) }
            }
        }
    }
}

fn insert(table: &mut Node, names: &[&str], value: Node, at: &At) -> bool {
    let path = table.path.clone();
    let Content::Table(entries) = &mut table.content else { return false };
    let Some((name, rest)) = names.split_first() else { return false };
    let position = match entries.iter().position(|entry| entry.name == *name) {
        Some(position) => position,
        None => {
            let node = Node { path: join(&path, name), at: at.clone(), content: Content::Table(Vec::new()) };
            entries.push(Entry { name: (*name).into(), at: at.clone(), node });
            entries.len() - 1
        }
    };
    if rest.is_empty() {
        entries[position].node = value;
        return true;
    }
    insert(&mut entries[position].node, rest, value, at)
}
