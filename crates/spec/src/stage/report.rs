//! `kind = "report"`: one table and one self-contained HTML page over the results of other stages.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Stages to report on; empty = all others of the pipeline.
    pub stages: Vec<String>,
}
