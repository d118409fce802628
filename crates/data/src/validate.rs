//! What can be known to be wrong before anything is trained.

use std::path::Path;

use spec::stage::{Format, OnBadRow, Prepare, Source};

use crate::source::{BadRows, jsonl, stackexchange_dump, synthetic_qa};
use crate::{DataError, Ledger, split, template};

/// Cheap checks of a source: it is there, can be read, and its first row looks like its format.
pub fn validate_source(source: &Source) -> Result<(), DataError> {
    let path = Path::new(&source.path);
    match source.format {
        Format::StackexchangeDump => stackexchange_dump::validate(path),
        Format::Jsonl => {
            let mut ledger = Ledger::default();
            jsonl::validate(path, &mut BadRows { policy: OnBadRow::Error, ledger: &mut ledger })
        }
        Format::SyntheticQa => Ok(()),
    }
}

/// The checks of [`validate_source`], and whether template, shares and number of questions can work.
pub fn validate_prepare(config: &Prepare) -> Result<(), DataError> {
    template::halves(&config.prompt_template)?;
    split::validate(&config.split)?;
    if config.source.format == Format::SyntheticQa {
        synthetic_qa::enough(config.source.questions)?;
        split::room(config.source.questions, config.eval)?;
    }
    validate_source(&config.source)
}
