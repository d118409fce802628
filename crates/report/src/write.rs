//! Writes the report's files.

use std::path::Path;

use crate::collect::Report;
use crate::error::ReportError;

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
}
