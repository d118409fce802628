//! The report's files.

use std::path::Path;

use serde_json::{Value, json};

use crate::collect::Report;
use crate::error::ReportError;
use crate::headline::Headline;

impl Report {
    /// Writes `results.json`, `results.md`, `results.txt` and `report.html` into `out`, which exists. The
    /// first three follow from the artifacts alone, byte for byte; the page also shows time and memory,
    /// inside `<section id="usage">`.
    pub fn write(&self, out: &Path) -> Result<(), ReportError> {
        let files = [
            ("results.json", self.json()),
            ("results.md", self.markdown()),
            ("results.txt", self.text()),
            ("report.html", self.html()),
        ];
        for (name, text) in files {
            let path = out.join(name);
            std::fs::write(&path, text).map_err(ReportError::io(&path))?;
        }
        Ok(())
    }

    /// The results for programs: headline numbers, and each stage's summary as it is.
    pub fn json(&self) -> String {
        let stage = |collected: &crate::collect::Collected| {
            let stage = &collected.stage;
            json!({ "name": stage.name, "kind": stage.kind, "summary": collected.summary })
        };
        let stages: Vec<Value> = self.stages.iter().map(stage).collect();
        let results = json!({ "title": self.title, "headline": self.headlines(), "stages": stages });
        format!("{results:#}\n")
    }

    /// The results for the terminal, at most 80 columns wide.
    pub fn text(&self) -> String {
        let headlines = self.headlines();
        let width = |of: fn(&Headline) -> &String| headlines.iter().map(|h| of(h).chars().count()).max();
        let (label, value) = (width(|h| &h.label).unwrap_or(0), width(|h| &h.value).unwrap_or(0));
        let mut text = format!("{}\n\n", self.title);
        for Headline { label: name, value: number, detail } in &headlines {
            let start = format!(" {name:<label$}  {number:>value$}  ");
            // The detail hangs in a column of its own.
            let detail = crate::table::wrap(detail, start.chars().count());
            text += format!("{start}{}", detail.trim_start()).trim_end();
            text.push('\n');
        }
        for table in self.tables() {
            text += &format!("\n{}", table.text());
        }
        text
    }

    /// The results as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n", self.title);
        for Headline { label, value, detail } in self.headlines() {
            text += &match detail.is_empty() {
                true => format!("- {label}: **{value}**\n"),
                false => format!("- {label}: **{value}** ({detail})\n"),
            };
        }
        for table in self.tables() {
            text += &format!("\n{}", table.markdown());
        }
        text
    }
}
