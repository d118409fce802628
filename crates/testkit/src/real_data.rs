//! Real data sets, which are not part of the repository.

use std::path::{Path, PathBuf};

/// A file of the real data, such as `stackexchange/beer-Posts.xml`: below the folder that
/// `PIPELINE_SHARED_DATA` names, or else `../shared/data` beside the workspace. Where it is missing, one
/// line says that the test is skipped, or, with `PIPELINE_CI_STRICT=1`, the test fails.
///
/// # Panics
/// Under `PIPELINE_CI_STRICT=1`, if the file is missing.
pub fn shared_data(file: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("PIPELINE_SHARED_DATA").map_or_else(beside, PathBuf::from);
    let path = folder.join(file);
    if path.exists() {
        return Some(path);
    }
    let strict = std::env::var_os("PIPELINE_CI_STRICT").is_some_and(|value| value == "1");
    assert!(!strict, "{} is missing", path.display());
    println!("skipped: {} is missing", path.display());
    None
}
