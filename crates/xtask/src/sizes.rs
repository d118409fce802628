//! The length rule: a file over 500 lines is named, one over 800 is refused.

use std::process::Command;

use anyhow::{Context, Result, bail};

const ASK: usize = 500;
const REFUSE: usize = 800;

pub fn check() -> Result<()> {
    let listing = Command::new("git").args(["ls-files", "*.rs"]).output().context("git did not start")?;
    let mut refused = Vec::new();
    for path in String::from_utf8(listing.stdout)?.lines() {
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        match text.lines().count() {
            lines if lines > REFUSE => refused.push(format!("{path}: {lines} lines")),
            lines if lines > ASK => println!("sizes: {path} has {lines} lines; can it be two files?"),
            _ => {}
        }
    }
    if !refused.is_empty() {
        bail!("files over {REFUSE} lines:\n  {}", refused.join("\n  "));
    }
    Ok(())
}
