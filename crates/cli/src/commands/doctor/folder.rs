//! The state folder as a place: its file system, its locks, its free space.

use std::path::Path;

use store::network;

use super::Finding;
use crate::format;

pub fn check(root: &Path) -> Vec<Finding> {
    let mut findings = vec![file_system(root)];
    if !network::is_writable(root) {
        let message = format!("{} cannot be written to by this user", root.display());
        findings.push(Finding::problem("write access", message, "mend its permissions, or use --state-dir"));
    } else if root.is_dir() {
        findings.push(match network::check_locks(root) {
            Ok(()) => Finding::ok("file locks", "they keep others out"),
            Err(error) => Finding::error("file locks", &error),
        });
    }
    findings.extend(space(root));
    findings
}

fn file_system(root: &Path) -> Finding {
    match network::network_file_system(root) {
        None => Finding::ok("file system", format!("{} lies on a local disk", root.display())),
        Some(kind) => Finding::warning(
            "file system",
            format!("{} lies on {kind}; its database works without a write-ahead log there", root.display()),
            "a folder on a local disk is faster and safer: --state-dir",
        ),
    }
}

/// Room in bytes below which a run of any size is likely to fail.
const LITTLE: u64 = 2 << 30;

fn space(root: &Path) -> Option<Finding> {
    let free = network::free_bytes(root)?;
    let message = format!("{} free", format::bytes(free));
    let enough = free >= LITTLE;
    Some(match enough {
        true => Finding::ok("disk", message),
        false => Finding::warning("disk", message, "`pipeline gc` shows what could go"),
    })
}
