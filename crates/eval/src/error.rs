//! What can go wrong while evaluating. Codes are documented in `docs/errors/eval.md`.

use std::path::PathBuf;

/// Every error of this crate; [`EvalError::code`] is stable and documented.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{} line {line}: {message}", path.display())]
    BadLine { path: PathBuf, line: usize, message: String },
    #[error("{}", mismatch(what, missing, unexpected))]
    IdMismatch { what: String, missing: Vec<String>, unexpected: Vec<String> },
    #[error("{what}: the same id occurs twice: {}", list(ids))]
    DuplicateIds { what: String, ids: Vec<String> },
    #[error("nothing to compare: {message}")]
    NothingToCompare { message: String },
    #[error(
        "only {:.1} % of {expected} comparisons are valid, {:.1} % are needed for a win rate ({states})",
        100.0 * coverage, 100.0 * min_coverage
    )]
    Coverage { coverage: f64, min_coverage: f64, expected: usize, states: String },
    #[error("the reward model gave the score {score} to {what}")]
    NotFinite { what: String, score: f64 },
    #[error("judge prompt {name}: {message}")]
    Template { name: String, message: String },
    #[error("the environment variable {variable} holds no judge key")]
    MissingKey { variable: String },
    #[error("judge client: {message}")]
    Client { message: String },
    #[error("the judge refuses every request: HTTP {status}: {message}")]
    Rejected { status: u16, message: String },
    #[error(
        "the judge at {base_url} cannot be reached: {failures} judgements in a row failed, last: {message}"
    )]
    Unreachable { base_url: String, failures: usize, message: String },
    #[error(
        "judging paused at {spent_usd:.4} USD: the next request could go above max_cost_usd = {cap_usd} \
         ({judged} judged, {remaining} left)"
    )]
    CostCap { spent_usd: f64, cap_usd: f64, judged: usize, remaining: usize },
    #[error("max_cost_usd = {cap_usd} cannot be kept: input_price and output_price are both 0")]
    CapWithoutPrices { cap_usd: f64 },
}

impl EvalError {
    /// The stable code, `E07xx`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "E0701",
            Self::BadLine { .. } => "E0702",
            Self::IdMismatch { .. } => "E0703",
            Self::DuplicateIds { .. } => "E0704",
            Self::NothingToCompare { .. } => "E0705",
            Self::Coverage { .. } => "E0706",
            Self::NotFinite { .. } => "E0707",
            Self::Template { .. } => "E0710",
            Self::MissingKey { .. } => "E0711",
            Self::Client { .. } => "E0712",
            Self::Rejected { .. } => "E0713",
            Self::Unreachable { .. } => "E0714",
            Self::CostCap { .. } => "E0715",
            Self::CapWithoutPrices { .. } => "E0716",
        }
    }

    /// What the user can do, where there is something.
    pub fn help(&self) -> Option<&'static str> {
        Some(match self {
            Self::IdMismatch { .. } => {
                "answers are joined by prompt id; run the `generate` stage again for all models"
            }
            Self::Coverage { .. } => {
                "finished judgements are kept; `pipeline run FILE` again asks only for the failed ones"
            }
            Self::NotFinite { .. } => "the reward model is broken; look at its training curves",
            Self::MissingKey { .. } => "export it, or set api_key_env = \"\" for a server that needs no key",
            Self::Rejected { .. } => "check base_url, model and the key; finished judgements are kept",
            Self::Unreachable { .. } => {
                "check base_url and the network, then `pipeline resume`: finished judgements are kept"
            }
            Self::CostCap { .. } => {
                "raise max_cost_usd and `pipeline run FILE` again: finished judgements are kept"
            }
            Self::CapWithoutPrices { .. } => "set input_price and output_price in USD per million tokens",
            _ => return None,
        })
    }

    /// Whether trying again later may help without any change by the user.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Coverage { .. })
    }

    pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { path, source }
    }
}

/// The first few ids, so that an error over thousands stays one line.
fn list(ids: &[String]) -> String {
    const SHOWN: usize = 10;
    let mut text = ids.iter().take(SHOWN).map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
    if ids.len() > SHOWN {
        text += &format!(" and {} more", ids.len() - SHOWN);
    }
    text
}

fn mismatch(what: &str, missing: &[String], unexpected: &[String]) -> String {
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!("missing {}", list(missing)));
    }
    if !unexpected.is_empty() {
        parts.push(format!("unexpected {}", list(unexpected)));
    }
    format!("{what}: ids do not match: {}", parts.join("; "))
}
