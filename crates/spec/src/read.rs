//! From text to a [`Pipeline`]: syntax, overrides, tables, then the rules between stages.

use toml::Spanned;
use toml::de::DeTable;

use crate::executor::{Executor, Place};
use crate::mistake::{Mistakes, Problem, Sources, SpecErrors};
use crate::nearest::{alias, nearest};
use crate::node::{At, Content, Entry, Node, join};
use crate::overrides::Override;
use crate::pipeline::{Common, Lora, Model, Origins, Pipeline, PipelineMeta, Stage};
use crate::rules;
use crate::section::Section;
use crate::stage::{KINDS, StageConfig};

/// Reads a pipeline file.
///
/// `name` is what messages call the file. `overrides` are applied before the values are read, so that the
/// schema types them too.
///
/// # Errors
/// Every mistake that can be seen without touching the disk, in the order of the file.
pub fn parse(name: &str, text: &str, overrides: &[Override]) -> Result<Pipeline, SpecErrors> {
    let mut sources = Sources::default();
    sources.add(name, text);
    for change in overrides {
        sources.add("--set", &change.0);
    }
    let mut out = Mistakes::new(sources);

    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = At { source: 0, span: error.span().unwrap_or(0..0) };
        out.note(&at, Problem::Syntax { message: error.message().to_owned() });
    }
    if !errors.is_empty() {
        return Err(out.into_errors(name));
    }
    let root = tree(&table, overrides, &mut out);
    drop(table);
    let mut pipeline = read(&root, &mut out);
    rules::check(&pipeline, &root, &mut out);
    if !out.is_empty() {
        return Err(out.into_errors(name));
    }
    pipeline.origins = Origins { sources: out.sources, overrides: overrides.to_vec() };
    Ok(pipeline)
}

/// The file as a tree, changed as `--set` says: the file is source 0, the n-th change source n.
pub(crate) fn tree(table: &Spanned<DeTable<'_>>, overrides: &[Override], out: &mut Mistakes) -> Node {
    let mut root = Node::document(table);
    for (change, number) in overrides.iter().zip(1..) {
        change.apply(&mut root, number, out);
    }
    root
}

/// The tables of a file, in the order in which the documentation shows them.
const TABLES: [&str; 5] = ["pipeline", "model", "lora", "executor", "stages"];

fn read(root: &Node, out: &mut Mistakes) -> Pipeline {
    let mut pipeline = Pipeline {
        pipeline: PipelineMeta::default(),
        model: Model::default(),
        lora: Lora::default(),
        executor: Executor::default(),
        stages: Vec::new(),
        origins: Origins::default(),
    };
    let top = At { source: 0, span: 0..0 };
    let mut seen_pipeline = false;
    let mut seen_stages = false;
    for entry in root.entries().unwrap_or_default() {
        match entry.name.as_str() {
            "pipeline" => {
                seen_pipeline = true;
                read_table(entry, &mut [&mut pipeline.pipeline], "[pipeline]", &[], out);
            }
            "model" => read_table(entry, &mut [&mut pipeline.model], "[model]", &[], out),
            "lora" => read_table(entry, &mut [&mut pipeline.lora], "[lora]", &[], out),
            "executor" => read_table(entry, &mut [&mut pipeline.executor], "[executor]", &[], out),
            "stages" => {
                seen_stages = true;
                pipeline.stages = read_stages(entry, out);
            }
            name => unknown_table(name, entry, out),
        }
    }
    read_overrides(root, &mut pipeline.executor, out);
    if !seen_pipeline {
        let help = "start the file with a table [pipeline] that has a `name`".into();
        out.note(&top, Problem::MissingKey { key: "[pipeline]".into(), table: "the file".into(), help });
    }
    if !seen_stages {
        out.note(&top, Problem::NoStages);
    }
    pipeline
}

/// `[stages.NAME.executor]` tables, once `[executor]` is known, wherever in the file that stands.
fn read_overrides(root: &Node, executor: &mut Executor, out: &mut Mistakes) {
    for stage in root.get("stages").and_then(Node::entries).unwrap_or_default() {
        let entries = stage.node.entries().unwrap_or_default();
        let Some(entry) = entries.iter().find(|entry| entry.name == "executor") else { continue };
        let mut place: Place = executor.place.clone();
        read_table(entry, &mut [&mut place], &format!("[stages.{}.executor]", stage.name), &[], out);
        executor.overrides.stages.insert(stage.name.clone(), place);
    }
}

fn unknown_table(name: &str, entry: &Entry, out: &mut Mistakes) {
    let hint = match (nearest(name, TABLES), &entry.node.content) {
        (Some(table), _) => format!("did you mean [{table}]?"),
        (None, Content::Table(_)) => format!("stages are tables such as [stages.{name}]"),
        (None, _) => owners(name).unwrap_or_else(|| format!("the tables are {}", TABLES.join(", "))),
    };
    out.note(&entry.at, Problem::UnknownKey { key: name.into(), table: "the file".into(), hint });
}

fn read_stages(entry: &Entry, out: &mut Mistakes) -> Vec<Stage> {
    let Some(entries) = entry.node.entries() else {
        let expected = "a table of stages".into();
        out.note(
            &entry.node.at,
            Problem::WrongType { key: "stages".into(), expected, found: entry.node.describe() },
        );
        return Vec::new();
    };
    if entries.is_empty() {
        out.note(&entry.at, Problem::NoStages);
    }
    entries.iter().filter_map(|entry| read_stage(entry, out)).collect()
}

/// `None` when not even the kind is known; what else is wrong leaves a default behind.
fn read_stage(entry: &Entry, out: &mut Mistakes) -> Option<Stage> {
    let table = format!("[stages.{}]", entry.name);
    if !is_stage_name(&entry.name) {
        out.note(&entry.at, Problem::StageName { name: entry.name.clone() });
    }
    if entry.node.entries().is_none() {
        let expected = "a table".into();
        let key = entry.node.path.clone();
        out.note(&entry.node.at, Problem::WrongType { key, expected, found: entry.node.describe() });
        return None;
    }
    let kinds = || KINDS.iter().map(|(kind, _)| *kind);
    let Some(kind) = entry.node.get("kind") else {
        let help = format!("the kinds are {}", kinds().collect::<Vec<_>>().join(", "));
        out.note(&entry.at, Problem::MissingKey { key: "kind".into(), table, help });
        return None;
    };
    let Content::Text(word) = &kind.content else {
        let (key, expected) = (kind.path.clone(), "a string".into());
        out.note(&kind.at, Problem::WrongType { key, expected, found: kind.describe() });
        return None;
    };
    let Some(mut config) = StageConfig::of_kind(word) else {
        let expected = format!("one of {}", kinds().collect::<Vec<_>>().join(", "));
        let near = nearest(word, kinds()).map(str::to_owned);
        let key = kind.path.clone();
        out.note(&kind.at, Problem::UnknownWord { key, word: word.clone(), expected, nearest: near });
        return None;
    };
    let mut common = Common::default();
    let table = format!("{table} of kind `{word}`");
    read_table(entry, &mut [config.section_mut(), &mut common], &table, &["kind", "executor"], out);
    Some(Stage { name: entry.name.clone(), config, common })
}

fn is_stage_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= 64
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Gives every key of the table to the section that has it; `known` keys are read elsewhere.
fn read_table(
    entry: &Entry,
    sections: &mut [&mut dyn Section],
    table: &str,
    known: &[&'static str],
    out: &mut Mistakes,
) {
    let Some(entries) = entry.node.entries() else {
        let key = entry.node.path.clone();
        let expected = "a table".into();
        out.note(&entry.node.at, Problem::WrongType { key, expected, found: entry.node.describe() });
        return;
    };
    for key in entries {
        let taken = known.contains(&key.name.as_str())
            || sections.iter_mut().any(|section| section.set(&key.name, &key.node, out));
        if !taken {
            let keys = sections.iter().flat_map(|section| section.keys()).map(|key| key.name);
            let names: Vec<_> = keys.chain(known.iter().copied()).collect();
            let hint = unknown_key_hint(&key.name, &names);
            out.note(&key.at, Problem::UnknownKey { key: key.name.clone(), table: table.into(), hint });
        }
    }
    for key in sections.iter().flat_map(|section| section.keys()).filter(|key| key.rule.required) {
        if entry.node.get(key.name).is_none() {
            let help = format!("{}: {}", join(&entry.node.path, key.name), key.doc);
            out.note(&entry.at, Problem::MissingKey { key: key.name.into(), table: table.into(), help });
        }
    }
}

/// Our name for another tool's key; else the table that has the key; else the nearest key of this one.
fn unknown_key_hint(name: &str, names: &[&'static str]) -> String {
    let here = names.iter().copied();
    let near = |near: &str| format!("did you mean `{near}`?");
    let ours = |ours: &str| format!("here it is called `{ours}`");
    let elsewhere = owners(name);
    alias(name, here.clone())
        .filter(|_| nearest(name, here.clone()).is_none())
        .map(ours)
        .or(elsewhere)
        .or_else(|| nearest(name, here).map(near))
        .unwrap_or_else(|| format!("its keys are {}", names.join(", ")))
}

/// Which other tables have a key of exactly this name.
fn owners(name: &str) -> Option<String> {
    let has = |section: &dyn Section| section.keys().iter().any(|key| key.name == name);
    let mut tables = Vec::new();
    let fixed: [(&str, &dyn Section); 4] = [
        ("[pipeline]", &PipelineMeta::default()),
        ("[model]", &Model::default()),
        ("[lora]", &Lora::default()),
        ("[executor]", &Executor::default()),
    ];
    tables.extend(fixed.iter().filter(|(_, section)| has(*section)).map(|(table, _)| (*table).to_owned()));
    let kinds: Vec<_> = KINDS
        .iter()
        .filter(|(kind, _)| StageConfig::of_kind(kind).is_some_and(|config| has(config.section())))
        .map(|(kind, _)| format!("`{kind}`"))
        .collect();
    if !kinds.is_empty() {
        tables.push(format!("stages of kind {}", kinds.join(", ")));
    }
    (!tables.is_empty()).then(|| format!("`{name}` belongs to {}", tables.join(" and ")))
}
