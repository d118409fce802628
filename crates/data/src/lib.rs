//! Text in, batches out: sources, cleaning, splits, preference pairs, templates and tokenisation.
//!
//! The crate answers for everything between a raw data set and token ids: [`texts`] gives a language
//! model its documents, [`prepare`] turns a preference data set into the files that [`PreparedData`]
//! reads, [`Tokenizer`] is the one door between text and ids, and [`rng`] the one door to randomness.
//! What is done with the ids is `train`'s business; where the files lie is the caller's.

mod card;
mod clean;
mod document;
mod error;
mod pairs;
mod prepare;
mod prepared;
mod random;
pub mod source;
mod split;
mod template;
mod tokenizer;
mod validate;

pub use card::{Card, Dropped, Ledger, LengthStats, Reason, SplitCard};
pub use document::{Document, texts};
pub use error::DataError;
pub use prepare::prepare;
pub use prepared::{Meta, Pair, PreparedData, Prompt};
pub use random::{Label, order, rng};
pub use template::Template;
pub use tokenizer::{BOS_EOS, PAD, Tokenizer};
pub use validate::{validate_prepare, validate_source};
