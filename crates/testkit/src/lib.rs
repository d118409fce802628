//! For tests only: temporary projects, a tiny tokenizer, sample pairs, real data and snapshot filters.

mod project;
mod real_data;
mod samples;
mod slurm;
mod snapshots;

pub use project::Project;
pub use real_data::shared_data;
pub use samples::{pair, pairs, prompts, tokenizer};
pub use slurm::slurm;
pub use snapshots::filters;
