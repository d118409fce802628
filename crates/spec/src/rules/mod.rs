//! Rules between keys and between stages, checked once all tables are read.

mod executor;
mod references;
mod stages;

use std::collections::HashMap;

use crate::mistake::{Mistakes, Problem};
use crate::node::{At, Entry, Node};
use crate::pipeline::{Pipeline, Stage};

/// Checks all rules. `root` knows where things were written and which keys are in the file at all.
pub(crate) fn check(pipeline: &Pipeline, root: &Node, out: &mut Mistakes) {
    let written = root.get("stages").and_then(Node::entries).unwrap_or_default();
    let file = File {
        root,
        written: written.iter().map(|entry| (entry.name.as_str(), entry)).collect(),
        stages: pipeline.stages.iter().map(|stage| (stage.name.as_str(), stage)).collect(),
    };
    name(pipeline, root, out);
    references::check(pipeline, &file, out);
    stages::check(pipeline, &file, out);
    executor::check(pipeline, &file, out);
}

/// A pipeline's name is shown in lists, where a line break or an escape sequence would do harm.
fn name(pipeline: &Pipeline, root: &Node, out: &mut Mistakes) {
    let name = &pipeline.pipeline.name;
    let Some(node) = root.get("pipeline").and_then(|table| table.get("name")) else { return };
    if name.contains(char::is_control) {
        let allowed = "without control characters".to_owned();
        out.note(&node.at, Problem::OutOfRange { key: "name".into(), value: format!("{name:?}"), allowed });
    }
}

/// Looks up stages and places in the tree.
struct File<'a> {
    root: &'a Node,
    /// Stage tables as they are written, whatever is wrong with them.
    written: HashMap<&'a str, &'a Entry>,
    stages: HashMap<&'a str, &'a Stage>,
}

impl<'a> File<'a> {
    /// The stage of that name, if its kind is known.
    fn stage(&self, name: &str) -> Option<&'a Stage> {
        self.stages.get(name).copied()
    }

    /// The value at `stages.NAME.key`, if it is written in the file.
    fn find(&self, stage: &str, key: &str) -> Option<&Node> {
        self.written.get(stage)?.node.get(key)
    }

    fn has(&self, stage: &str, key: &str) -> bool {
        self.find(stage, key).is_some()
    }

    /// The place of a stage's key; of its table when the key is not in the file. Takes `models[1]`.
    fn at(&self, stage: &str, key: &str) -> At {
        let (name, index) = match key.split_once('[') {
            Some((name, index)) => (name, index.trim_end_matches(']').parse::<usize>().ok()),
            None => (key, None),
        };
        let Some(node) = self.find(stage, name) else { return self.table(stage) };
        match (&node.content, index) {
            (crate::node::Content::List(items), Some(index)) => items.get(index).unwrap_or(node).at.clone(),
            _ => node.at.clone(),
        }
    }

    /// The place of a stage's name in its header.
    fn table(&self, stage: &str) -> At {
        self.written.get(stage).map_or(At { source: 0, span: 0..0 }, |entry| entry.at.clone())
    }
}
