//! A table, and its forms for the terminal and for Markdown.

use comfy_table::{CellAlignment, ContentArrangement, TableComponent, presets};

/// Columns of the terminal that tables keep to.
const WIDTH: u16 = 80;

/// Text cells under headings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    pub title: String,
    /// What a reader must know to read it right; may be empty.
    pub note: String,
    pub columns: Vec<&'static str>,
    /// The first so many columns are names, aligned left; the others are numbers, aligned right.
    pub names: usize,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(title: impl Into<String>, columns: &[&'static str]) -> Self {
        Self {
            title: title.into(),
            note: String::new(),
            columns: columns.to_vec(),
            names: 1,
            rows: Vec::new(),
        }
    }

    pub fn text(&self) -> String {
        let mut table = comfy_table::Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_style(TableComponent::HeaderLines, '─')
            .set_style(TableComponent::MiddleHeaderIntersections, '─')
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH)
            .set_header(&self.columns)
            .add_rows(&self.rows);
        for (index, column) in table.column_iter_mut().enumerate() {
            let alignment = if index < self.names { CellAlignment::Left } else { CellAlignment::Right };
            column.set_cell_alignment(alignment);
        }
        let body: Vec<String> = table.lines().map(|line| line.trim_end().to_string()).collect();
        let note = if self.note.is_empty() { String::new() } else { wrap(&self.note, 1) + "\n" };
        format!("{}\n{}\n{note}", self.title, body.join("\n"))
    }

    pub fn markdown(&self) -> String {
        let cell = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace(['\n', '\r'], " ");
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("## {}\n\n", self.title);
        text += &line(self.columns.iter().map(|name| cell(name)).collect());
        let rule =
            (0..self.columns.len()).map(|index| if index < self.names { "---" } else { "---:" }.to_string());
        text += &line(rule.collect());
        for row in &self.rows {
            text += &line(row.iter().map(|text| cell(text)).collect());
        }
        if !self.note.is_empty() {
            text += &format!("\n{}\n", self.note);
        }
        text
    }
}

/// Breaks at spaces so that no line is wider than the terminal, each line indented by `indent`.
pub(crate) fn wrap(text: &str, indent: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let fits = |line: &&mut String| line.chars().count() + 1 + word.chars().count() <= usize::from(WIDTH);
        match lines.last_mut().filter(fits) {
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(format!("{}{word}", " ".repeat(indent))),
        }
    }
    lines.join("\n")
}
