//! What has *happened*: the state folder with its SQLite database, whole-or-nothing files, artifacts,
//! checkpoints and leases. Decides nothing; the engine does.

mod artifacts;
mod attempts;
mod database;
mod error;
pub mod fault;
pub mod files;
pub mod gc;
mod health;
pub mod id;
mod layout;
pub mod lease;
mod memo;
pub mod network;
mod owner;
pub mod process;
pub mod record;
mod runs;
mod writer;

pub use artifacts::Publication;
pub use attempts::{AttemptEnd, NewAttempt};
pub use database::Store;
pub use error::StoreError;
pub use health::Health;
pub use layout::Layout;
pub use memo::{FileMemo, Fresh};
pub use runs::{DecidedStage, NewRun};
