//! `pipeline doctor`: what is wrong with this state folder, this machine and its driver, and what to do.

mod folder;
mod machine;
mod state;

use serde::Serialize;
use serde_json::json;

use crate::args::Global;
use crate::failure::{Failure, exit};
use crate::printer::Printer;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    /// Nothing that stops a run.
    Warning,
    Problem,
}

/// What was found.
#[derive(Debug, Clone, Serialize)]
struct Finding {
    level: Level,
    /// What was looked at.
    check: &'static str,
    message: String,
    /// What to do; empty where nothing is to be done.
    help: String,
}

impl Finding {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { level: Level::Ok, check, message: message.into(), help: String::new() }
    }

    fn warning(check: &'static str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { level: Level::Warning, check, message: message.into(), help: help.into() }
    }

    fn problem(check: &'static str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { level: Level::Problem, check, message: message.into(), help: help.into() }
    }

    /// An error that knows its help itself.
    fn error(check: &'static str, error: &dyn miette::Diagnostic) -> Self {
        let help = error.help().map_or_else(String::new, |help| help.to_string());
        Self::problem(check, error.to_string(), help)
    }
}

pub async fn doctor(deep: bool, json: bool, global: &Global, printer: &Printer) -> Result<u8, Failure> {
    let mut findings = folder::check(&global.state_dir);
    findings.extend(state::check(&global.state_dir, deep).await);
    findings.extend(machine::check());
    let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
    if json {
        printer.json(&json!({ "worst": worst, "findings": findings }));
    } else {
        show(&findings, printer);
    }
    Ok(if worst == Level::Problem { exit::STAGE_FAILED } else { exit::OK })
}

fn show(findings: &[Finding], printer: &Printer) {
    for finding in findings {
        let level = match finding.level {
            Level::Ok => printer.state_as("succeeded", "ok     "),
            Level::Warning => printer.state_as("stopped", "warning"),
            Level::Problem => printer.state_as("failed", "problem"),
        };
        printer.line(format_args!("{level}  {}: {}", finding.check, finding.message));
        if !finding.help.is_empty() {
            printer.line(format_args!("         → {}", finding.help));
        }
    }
}
