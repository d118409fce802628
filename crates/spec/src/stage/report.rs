//! `kind = "report"`: one table and one self-contained HTML page over the results of other stages.

use crate::section::section;

section! {
    /// `kind = "report"`
    pub struct Report {
        /// Stages to report on; empty = all others of the pipeline.
        pub stages: Vec<String> = Vec::new() => stage(&[]),
    }
}
