//! What can go wrong between a file and its token ids. Codes are explained in `docs/errors/data.md`.

use std::path::{Path, PathBuf};

use miette::Diagnostic;
use thiserror::Error;

/// Every error of this crate, with a code `E04xx` and, where a person can mend it, help.
#[derive(Debug, Error, Diagnostic)]
pub enum DataError {
    #[error("cannot read `{}`: {source}", path.display())]
    #[diagnostic(code(E0401), help("relative paths are taken from the current directory"))]
    Read { path: PathBuf, source: std::io::Error },

    #[error("`{}` is not a Stack Exchange dump: {found}", path.display())]
    #[diagnostic(
        code(E0402),
        help("`stackexchange-dump` reads the `Posts.xml` of an archive.org dump, whose root is `<posts>`")
    )]
    NotADump { path: PathBuf, found: String },

    #[error("`{}` has no usable row: {what}", path.display())]
    #[diagnostic(code(E0403))]
    Empty { path: PathBuf, what: String },

    #[error("{}:{row}: {problem}", path.display())]
    #[diagnostic(
        code(E0404),
        help("mend the row, or set `on_bad_row = \"skip\"` to leave such rows out and count them")
    )]
    BadRow {
        path: PathBuf,
        /// `line 12` of a JSON-lines file, `row 7 (Id 42)` of a dump.
        row: String,
        problem: String,
    },

    #[error("`{}` is damaged at byte {byte}: {problem}", path.display())]
    #[diagnostic(code(E0405), help("the file looks cut off or altered: download or unpack it again"))]
    Damaged { path: PathBuf, byte: u64, problem: String },

    #[error("nothing is left of {what}{}", reasons(dropped))]
    #[diagnostic(
        code(E0406),
        help(
            "raise `max_prompt_length` and `max_response_length`, or look at the rows named in the reasons"
        )
    )]
    NothingLeft {
        what: String,
        /// Reason and how often, with an example id each.
        dropped: Vec<(String, usize, String)>,
    },

    #[error("no usable tokenizer in `{}`: {problem}", path.display())]
    #[diagnostic(
        code(E0407),
        help("a model folder needs `tokenizer.json` as Hugging Face tokenizers write it")
    )]
    Tokenizer { path: PathBuf, problem: String },

    #[error("the tokenizer could not {action}: {problem}")]
    #[diagnostic(code(E0408))]
    Encode { action: &'static str, problem: String },

    #[error("split: {problem}")]
    #[diagnostic(code(E0409), help("{help}"))]
    Split { problem: String, help: String },

    #[error("`prompt_template` {problem}")]
    #[diagnostic(code(E0410), help("`{{prompt}}` stands for the prompt's text, exactly once"))]
    Template { problem: String },

    #[error("the synthetic world has {available} different questions, {wanted} are wanted")]
    #[diagnostic(code(E0411), help("set `questions` between 1 and {available}"))]
    WorldTooSmall { wanted: usize, available: usize },

    #[error("`{}` is not prepared data: {problem}", path.display())]
    #[diagnostic(code(E0412), help("run the `prepare` stage again"))]
    NotPrepared { path: PathBuf, problem: String },

    #[error("cannot write `{}`: {source}", path.display())]
    #[diagnostic(code(E0413))]
    Write { path: PathBuf, source: std::io::Error },
}

impl DataError {
    pub(crate) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| DataError::Read { path: path.into(), source }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |source| DataError::Write { path: path.into(), source }
    }
}

fn reasons(dropped: &[(String, usize, String)]) -> String {
    let parts: Vec<String> = dropped
        .iter()
        .map(|(reason, count, example)| format!("{count} × {reason} (such as {example})"))
        .collect();
    if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) }
}
