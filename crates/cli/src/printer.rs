//! The one place that writes for people: data to stdout, everything else to stderr.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::sync::OnceLock;

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, MietteDiagnostic};
use serde::Serialize;

use crate::args::{Colour, Global};
use crate::failure::Failure;

/// The first error of writing to stdout.
static UNWRITTEN: OnceLock<std::io::Error> = OnceLock::new();

/// Why stdout lacks something: a full disk, say. What a program was to read must not look whole.
pub fn unwritten() -> Option<Failure> {
    let error = UNWRITTEN.get()?;
    let source = std::io::Error::new(error.kind(), error.to_string());
    Some(Failure::Io { what: "cannot write to stdout".to_owned(), source })
}

/// Width of messages off a terminal.
const PLAIN_WIDTH: usize = 100;

/// Writes for people and programs.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    pub quiet: bool,
    /// Colours on stderr.
    pub colour: bool,
    /// Colours on stdout.
    stdout_colour: bool,
    /// Whether stderr can be redrawn.
    pub terminal: bool,
}

impl Printer {
    pub fn new(global: &Global) -> Self {
        // https://no-color.org: set and not empty.
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colour = |terminal: bool| match global.color {
            Colour::Auto => terminal && !refused,
            Colour::Always => true,
            Colour::Never => false,
        };
        let terminal = std::io::stderr().is_terminal();
        let stdout_colour = colour(std::io::stdout().is_terminal());
        Self { quiet: global.quiet, colour: colour(terminal), stdout_colour, terminal }
    }

    /// A line of data.
    pub fn line(&self, text: impl Display) {
        self.data(&format!("{text}\n"));
    }

    /// Data as it is. A reader that went away (`| head`) is no error; anything else is reported at the end,
    /// by [`unwritten`].
    pub fn data(&self, text: &str) {
        let mut stdout = std::io::stdout().lock();
        if let Err(error) = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
            && error.kind() != std::io::ErrorKind::BrokenPipe
        {
            let _ = UNWRITTEN.set(error);
        }
    }

    /// Data for programs.
    pub fn json(&self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.line(text),
            Err(error) => self.note(format!("cannot be written as JSON: {error}")),
        }
    }

    /// A table of data; columns in `right` are aligned to the right.
    pub fn table(&self, header: &[&str], right: &[usize], rows: Vec<Vec<String>>) {
        let mut table = Table::new();
        table
            .load_preset(comfy_table::presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(header.iter().map(|name| Cell::new(self.bold(&name.to_uppercase()))));
        for row in rows {
            table.add_row(row.into_iter().enumerate().map(|(column, text)| {
                let cell = Cell::new(text);
                if right.contains(&column) { cell.set_alignment(CellAlignment::Right) } else { cell }
            }));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        for line in table.lines() {
            self.line(line.trim_end());
        }
    }

    fn bold(&self, text: &str) -> String {
        paint(self.stdout_colour, "1", text)
    }

    /// A state such as `succeeded`, coloured by how good it is.
    pub fn state(&self, state: &str) -> String {
        paint(self.stdout_colour, colour_of(state), state)
    }

    /// A word coloured as that state.
    pub fn state_as(&self, state: &str, text: &str) -> String {
        paint(self.stdout_colour, colour_of(state), text)
    }

    /// A remark that quiet commands leave out.
    pub fn note(&self, text: impl Display) {
        if !self.quiet {
            self.warn(text);
        }
    }

    /// A remark that is always made.
    pub fn warn(&self, text: impl Display) {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }

    /// Why a command failed.
    pub fn failure(&self, failure: &Failure) {
        let mistakes = failure.mistakes();
        for mistake in mistakes {
            self.diagnostic(mistake);
        }
        if let Some(diagnostic) = failure.diagnostic() {
            return self.diagnostic(diagnostic);
        }
        if !mistakes.is_empty() {
            return self.warn(failure);
        }
        let mut diagnostic = MietteDiagnostic::new(failure.to_string());
        diagnostic.code = failure.code().map(str::to_owned);
        diagnostic.help = failure.help().map(str::to_owned);
        self.diagnostic(&diagnostic);
    }

    /// Message, code, place and help.
    pub fn diagnostic(&self, diagnostic: &dyn Diagnostic) {
        let theme = if self.colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(self.width());
        let mut text = String::new();
        match handler.render_report(&mut text, diagnostic) {
            Ok(()) => self.warn(text),
            Err(_) => self.warn(diagnostic),
        }
    }

    fn width(&self) -> usize {
        match terminal_size::terminal_size_of(std::io::stderr()) {
            Some((columns, _)) if self.terminal => usize::from(columns.0).clamp(40, 120),
            _ => PLAIN_WIDTH,
        }
    }

    /// A word on stderr in a colour.
    pub fn paint(&self, state: &str, text: &str) -> String {
        paint(self.colour, colour_of(state), text)
    }
}

fn colour_of(state: &str) -> &'static str {
    match state {
        "succeeded" => "32",
        "failed" | "refused" | "interrupted" | "dead" => "31",
        "running" | "retrying" => "36",
        "stopped" | "skipped" | "waiting" => "33",
        _ => "2",
    }
}

fn paint(colour: bool, code: &str, text: &str) -> String {
    if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}
