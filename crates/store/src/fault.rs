//! A door for tests: die by SIGKILL at a named point of a transition.
//!
//! `PIPELINE_FAULT_POINT=publish.renamed:2` kills this process when it passes that point for the second
//! time. Without the variable a point costs one atomic load. [`POINTS`] lists them all, so that a test can
//! sweep them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The variable that asks for death.
pub const VARIABLE: &str = "PIPELINE_FAULT_POINT";

/// Every point, in the order in which a first run meets them.
pub const POINTS: &[&str] = &[
    "run.created",
    "run.leased",
    "stage.leased",
    "attempt.inserted",
    "attempt.requested",
    "attempt.spawned",
    "attempt.recorded",
    "attempt.checkpoint",
    "attempt.ended",
    "publish.verified",
    "publish.manifest",
    "publish.replaced",
    "publish.renamed",
    "publish.committed",
    "stage.released",
    "run.finished",
    "run.released",
];

struct Wanted {
    name: String,
    left: AtomicU32,
}

/// Passes the point `name`, or dies there if the environment says so.
pub fn point(name: &'static str) {
    debug_assert!(POINTS.contains(&name), "{name} is not in fault::POINTS");
    static WANTED: OnceLock<Option<Wanted>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| {
        let value = std::env::var(VARIABLE).ok()?;
        let (name, count) = value.rsplit_once(':').unwrap_or((&value, "1"));
        Some(Wanted { name: name.to_owned(), left: AtomicU32::new(count.parse().unwrap_or(1)) })
    });
    let Some(wanted) = wanted else { return };
    if wanted.name == name && wanted.left.fetch_sub(1, Ordering::SeqCst) == 1 {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL);
        std::process::abort();
    }
}
