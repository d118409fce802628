//! What can be wrong in a pipeline file, and how it is shown: code, file, line, column, snippet, help.

use std::fmt;
use std::sync::Arc;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

use crate::node::At;
use crate::units::Unit;

/// A kind of mistake, with what is needed to say it. Codes are explained in `docs/errors/spec.md`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    #[error("this is not valid TOML: {message}")]
    Syntax { message: String },
    #[error("unknown key `{key}` in {table}")]
    UnknownKey { key: String, table: String, hint: String },
    #[error("`{key}` must be {expected}, but is {found}")]
    WrongType { key: String, expected: String, found: String },
    #[error("`{key}` must be {allowed}, but is {value}")]
    OutOfRange { key: String, value: String, allowed: String },
    #[error("`{key}` has a unit that is not known: {value:?}")]
    BadUnit { key: String, value: String, unit: Unit },
    #[error("`{key}` must be {expected}, but is {word:?}")]
    UnknownWord { key: String, word: String, expected: String, nearest: Option<String> },
    #[error("{table} lacks the key `{key}`")]
    MissingKey { key: String, table: String, help: String },
    #[error("unknown stage `{stage}`")]
    UnknownStage { stage: String, nearest: Option<String>, stages: Vec<String> },
    #[error("`{key}` needs a stage of kind {allowed}, but `{stage}` is of kind `{kind}`")]
    WrongKind { key: String, stage: String, kind: String, allowed: String },
    #[error("the stages form a cycle: {}", path.join(" → "))]
    Cycle { path: Vec<String>, edges: Vec<String> },
    #[error("stage `{data}` makes no split `{split}`")]
    UnknownSplit { split: String, data: String, nearest: Option<String>, splits: Vec<String> },
    #[error("`{key}` has no effect here")]
    NoEffect { key: String, why: String },
    #[error("{message}")]
    Conflict { message: String, help: String },
    #[error("`{key}` contains `{variable}`, but pipeline files have no variables")]
    Variable { key: String, variable: String },
    #[error("--set {text}: {why}")]
    Override { text: String, why: String },
    #[error("`{name}` cannot be the name of a stage")]
    StageName { name: String },
    #[error("the pipeline has no stages")]
    NoStages,
    /// Found outside the file, about something it says: a missing path, a model folder without tokenizer.
    #[error("{message}")]
    Outside {
        /// Of the crate that found it.
        code: String,
        message: String,
        help: String,
    },
}

impl Problem {
    /// `E01xx`, stable.
    pub fn code(&self) -> &str {
        match self {
            Problem::Syntax { .. } => "E0101",
            Problem::UnknownKey { .. } => "E0102",
            Problem::WrongType { .. } => "E0103",
            Problem::OutOfRange { .. } => "E0104",
            Problem::BadUnit { .. } => "E0105",
            Problem::UnknownWord { .. } => "E0106",
            Problem::MissingKey { .. } => "E0107",
            Problem::UnknownStage { .. } => "E0108",
            Problem::WrongKind { .. } => "E0109",
            Problem::Cycle { .. } => "E0110",
            Problem::UnknownSplit { .. } => "E0111",
            Problem::NoEffect { .. } => "E0112",
            Problem::Conflict { .. } => "E0113",
            Problem::Variable { .. } => "E0114",
            Problem::Override { .. } => "E0115",
            Problem::StageName { .. } => "E0116",
            Problem::NoStages => "E0117",
            Problem::Outside { code, .. } => code,
        }
    }

    /// What to do about it; empty when the message says it all.
    pub fn help(&self) -> String {
        match self {
            Problem::UnknownKey { hint, .. } => hint.clone(),
            Problem::WrongType { expected, found, .. } => type_help(expected, found),
            Problem::BadUnit { unit, .. } => format!("write {}", unit.example()),
            Problem::UnknownWord { nearest, .. } => did_you_mean(nearest.as_deref()),
            Problem::MissingKey { help, .. } => help.clone(),
            Problem::UnknownStage { nearest: Some(name), .. } => did_you_mean(Some(name)),
            Problem::UnknownStage { stages, .. } => format!("the stages are {}", stages.join(", ")),
            Problem::Cycle { edges, .. } => edges.join("\n"),
            Problem::UnknownSplit { nearest: Some(name), .. } => did_you_mean(Some(name)),
            Problem::UnknownSplit { splits, .. } => format!("its splits are {}", splits.join(", ")),
            Problem::NoEffect { why, .. } => why.clone(),
            Problem::Conflict { help, .. } | Problem::Outside { help, .. } => help.clone(),
            Problem::Variable { .. } => "write the value, or give it on the command line with --set".into(),
            Problem::Override { .. } => {
                "write --set table.key=value, such as --set stages.ppo.kl_coef=0.05".into()
            }
            Problem::StageName { .. } => {
                "use letters, digits, `-` and `_`, starting with a letter or digit, at most 64".into()
            }
            Problem::NoStages => "add a table such as [stages.data] with `kind = \"prepare\"`".into(),
            Problem::Syntax { .. } | Problem::OutOfRange { .. } | Problem::WrongKind { .. } => String::new(),
        }
    }

    /// The few words beside the underlined text.
    fn label(&self) -> String {
        match self {
            Problem::UnknownKey { .. } => "not a key of this table".into(),
            Problem::WrongType { expected, .. } | Problem::UnknownWord { expected, .. } => {
                format!("expected {expected}")
            }
            Problem::OutOfRange { allowed, .. } => format!("must be {allowed}"),
            Problem::MissingKey { key, .. } => format!("`{key}` is missing here"),
            Problem::UnknownStage { .. } => "no such stage".into(),
            Problem::WrongKind { kind, .. } => format!("this is a `{kind}` stage"),
            Problem::UnknownSplit { .. } => "no such split".into(),
            Problem::Cycle { path, .. } => path.iter().take(2).cloned().collect::<Vec<_>>().join(" → "),
            _ => "here".into(),
        }
    }
}

fn did_you_mean(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("did you mean `{name}`?"))
}

fn type_help(expected: &str, found: &str) -> String {
    match found.split_once("the string ") {
        Some((_, text)) if !expected.contains("string") && text.trim_matches('"').parse::<f64>().is_ok() => {
            format!("write it without quotes: {}", text.trim_matches('"'))
        }
        Some(_) if expected.contains("list of strings") => "write it as a list: [\"…\"]".into(),
        None if expected == "a string" => "put it in quotes".into(),
        _ => String::new(),
    }
}

/// A [`Problem`] with its place.
#[derive(Clone)]
pub struct Mistake {
    pub problem: Problem,
    source: Option<NamedSource<Arc<str>>>,
    label: Option<LabeledSpan>,
}

impl Mistake {
    /// File name, line and column (from 1) of the mistake; `None` when it has no place.
    pub fn place(&self) -> Option<(String, usize, usize)> {
        let (source, label) = (self.source.as_ref()?, self.label.as_ref()?);
        let (line, column) = line_column(source.inner(), label.offset());
        Some((source.name().to_owned(), line, column))
    }
}

impl fmt::Debug for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mistake").field("problem", &self.problem).field("place", &self.place()).finish()
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl std::error::Error for Mistake {}

impl Diagnostic for Mistake {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.problem.code()))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let help = self.problem.help();
        (!help.is_empty()).then(|| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.label.clone().map(|label| Box::new(std::iter::once(label)) as Box<dyn Iterator<Item = _>>)
    }
}

/// All mistakes of a file.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{} in {name}", count(mistakes.len()))]
pub struct SpecErrors {
    /// The file.
    pub name: String,
    /// At least one, in the order of the file.
    pub mistakes: Vec<Mistake>,
}

fn count(n: usize) -> String {
    if n == 1 { "1 mistake".into() } else { format!("{n} mistakes") }
}

impl Diagnostic for SpecErrors {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.mistakes.iter().map(|mistake| mistake as &dyn Diagnostic)))
    }
}

/// The texts that places refer to: the file, then each `--set`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources(Vec<(String, Arc<str>)>);

impl Sources {
    pub fn add(&mut self, name: &str, text: &str) -> usize {
        self.0.push((name.to_owned(), text.into()));
        self.0.len() - 1
    }

    /// A text by its number.
    pub fn text(&self, number: usize) -> Option<&str> {
        self.0.get(number).map(|(_, text)| text.as_ref())
    }

    /// `file:line:column`.
    pub fn show(&self, at: &At) -> String {
        let Some((name, text)) = self.0.get(at.source) else { return String::new() };
        let (line, column) = line_column(text, at.span.start);
        format!("{name}:{line}:{column}")
    }

    /// A mistake at a place.
    pub fn mistake(&self, at: Option<&At>, problem: Problem) -> Mistake {
        let found = at.and_then(|at| Some((at, self.0.get(at.source)?)));
        let Some((at, (name, text))) = found else {
            return Mistake { problem, source: None, label: None };
        };
        // An empty span would be drawn as nothing.
        let length = at.span.len().max(1).min(text.len().saturating_sub(at.span.start));
        let label = LabeledSpan::new(Some(problem.label()), at.span.start, length);
        Mistake { problem, source: Some(NamedSource::new(name, text.clone())), label: Some(label) }
    }
}

/// Collects mistakes while the file is read.
#[derive(Debug, Default)]
pub struct Mistakes {
    pub(crate) sources: Sources,
    list: Vec<(At, Mistake)>,
}

impl Mistakes {
    pub(crate) fn new(sources: Sources) -> Self {
        Self { sources, list: Vec::new() }
    }

    /// Notes a mistake.
    pub fn note(&mut self, at: &At, problem: Problem) {
        self.list.push((at.clone(), self.sources.mistake(Some(at), problem)));
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The mistakes in the order of the file.
    pub(crate) fn into_errors(mut self, name: &str) -> SpecErrors {
        self.list.sort_by_key(|(at, _)| (at.source, at.span.start));
        SpecErrors {
            name: name.to_owned(),
            mistakes: self.list.into_iter().map(|(_, mistake)| mistake).collect(),
        }
    }
}

/// Line and column from 1; the column counts characters.
fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}
