//! `kind = "rouge"`: ROUGE of the answers against the preferred responses.

use crate::section::section;

section! {
    /// `kind = "rouge"`
    pub struct Rouge {
        /// The `generate` stage.
        pub completions: String = String::new() => stage(&["generate"]).required(),
        /// Compare word stems (Porter).
        pub use_stemmer: bool = true,
    }
}
