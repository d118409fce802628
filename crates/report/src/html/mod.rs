//! One HTML page: no script, no external resource; light and dark; prints.
//!
//! Every text that comes from data or models goes through [`escape`].

mod chart;
mod samples;

use crate::collect::{Collected, Report, Results};
use crate::table::Table;
use crate::tables::usage;

/// How the numbers come about.
const NOTES: &str = "Win rates are in percent, 50 is even: the mean over opponents and prompts, where a tie or a \
    disagreement between the two orders counts half. Their intervals are percentile bootstraps over prompts; \
    those of shares are Wilson’s. All are at 95 %.";

const STYLE: &str = include_str!("style.css");

impl Report {
    /// The page.
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        let mut body = format!("<header><h1>{title}</h1></header>\n<main>\n");
        body += &self.headline_tiles();
        body += &self.stages.iter().map(win_rate_figure).collect::<String>();
        let tables: String = self.tables().iter().map(table).collect();
        body += &section("results", "Results", &format!("<div class=\"tables\">{tables}</div>"));
        body += &section("curves", "Training", &self.stages.iter().map(chart::curves).collect::<String>());
        body += &section("samples", "Sample answers", &samples::samples(&self.stages));
        let used = table(&usage(self.stages.iter().map(|collected| &collected.stage)));
        body += &section("usage", "Usage", &used);
        body += &format!("</main>\n<footer><p>{NOTES}</p></footer>\n");
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
        )
    }

    fn headline_tiles(&self) -> String {
        let tile = |h: crate::headline::Headline| {
            let (label, value, detail) = (escape(&h.label), escape(&h.value), escape(&h.detail));
            format!("<div class=\"tile\"><dt>{label}</dt><dd>{value}</dd><p>{detail}</p></div>\n")
        };
        let tiles: String = self.headlines().into_iter().map(tile).collect();
        if tiles.is_empty() { tiles } else { format!("<dl class=\"tiles\">\n{tiles}</dl>\n") }
    }
}

/// A section; nothing where there is no content.
fn section(id: &str, title: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{content}\n</section>\n")
}

/// Win rates with their intervals on a line from 0 to 100.
fn win_rate_figure(collected: &Collected) -> String {
    let Results::Judge(summary, _) = &collected.results else { return String::new() };
    let Some(rates) = &summary.win_rate else { return String::new() };
    let rows: Vec<_> =
        summary.models.iter().filter_map(|model| Some((model.as_str(), rates.get(model)?))).collect();
    let heading = format!("Expected win rate, judged by {}", escape(&summary.judge));
    format!(
        "<figure class=\"wide\">\n<figcaption>{heading}</figcaption>\n{}</figure>\n",
        chart::intervals(&rows)
    )
}

fn table(table: &Table) -> String {
    let cell = |tag: &str, index: usize, text: &str| {
        let class = if index < table.names { " class=\"name\"" } else { "" };
        format!("<{tag}{class}>{}</{tag}>", escape(text))
    };
    let head: String = table.columns.iter().enumerate().map(|(at, text)| cell("th", at, text)).collect();
    let row = |row: &Vec<String>| -> String {
        row.iter().enumerate().map(|(at, text)| cell("td", at, text)).collect()
    };
    let rows: String = table.rows.iter().map(|cells| format!("<tr>{}</tr>\n", row(cells))).collect();
    let note =
        if table.note.is_empty() { String::new() } else { format!("<p>{}</p>\n", escape(&table.note)) };
    let title = escape(&table.title);
    format!(
        "<div class=\"table\">\n<table>\n<caption>{title}</caption>\n<thead><tr>{head}</tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table>\n{note}</div>\n"
    )
}

/// Text for an HTML element or a quoted attribute. Control characters, which HTML forbids, show as U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
