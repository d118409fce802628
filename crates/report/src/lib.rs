//! Turns stages' artifacts into what a person reads: tables for the terminal and Markdown, JSON for
//! programs, and one HTML page that needs nothing beside it.
//!
//! Reads `summary.json`, `metrics.jsonl`, `answers.jsonl` and `judgements.jsonl`; computes nothing that a
//! stage has not. [`collect()`] reads, [`Report::write`] writes.

pub mod collect;
pub mod error;
mod format;
mod headline;
mod html;
mod table;
mod tables;
mod write;

pub use collect::{Report, Stage, Usage, collect};
pub use error::ReportError;
pub use tables::usage_text;
