//! A door for tests: die by SIGKILL, or stop, at a named point of a transition.
//!
//! `PIPELINE_FAULT_POINT=publish.renamed:2` kills this process when it passes that point for the second
//! time; `publish.renamed:2=stop` stops it there (SIGSTOP), so that a test can do something to others
//! meanwhile. Without the variable a point costs one atomic load. [`POINTS`] and [`WORKER_POINTS`] list
//! them all, so that a test can sweep them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::Pid;

/// The variable that asks for death.
pub const VARIABLE: &str = "PIPELINE_FAULT_POINT";

/// Every point of a driver, in the order in which a first run meets them.
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

/// Every point of a worker, in the order in which it meets them.
pub const WORKER_POINTS: &[&str] =
    &["worker.started", "checkpoint.written", "checkpoint.renamed", "worker.finished", "worker.sealed"];

/// Every point of a garbage collection.
pub const GC_POINTS: &[&str] = &["gc.rows", "gc.moved"];

struct Wanted {
    name: String,
    left: AtomicU32,
    signal: Signal,
}

/// Passes the point `name`, or dies there if the environment says so.
pub fn point(name: &'static str) {
    debug_assert!(
        [POINTS, WORKER_POINTS, GC_POINTS].iter().any(|l| l.contains(&name)),
        "{name} is on no list"
    );
    static WANTED: OnceLock<Option<Wanted>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| {
        let value = std::env::var(VARIABLE).ok()?;
        let (place, signal) = match value.strip_suffix("=stop") {
            Some(place) => (place, Signal::SIGSTOP),
            None => (value.as_str(), Signal::SIGKILL),
        };
        let (name, count) = place.rsplit_once(':').unwrap_or((place, "1"));
        Some(Wanted { name: name.to_owned(), left: AtomicU32::new(count.parse().unwrap_or(1)), signal })
    });
    let Some(wanted) = wanted else { return };
    if wanted.name == name && wanted.left.fetch_sub(1, Ordering::SeqCst) == 1 {
        if wanted.signal == Signal::SIGKILL {
            let _ = kill(Pid::this(), Signal::SIGKILL);
            std::process::abort();
        }
        // To this very thread: one that is sent to the process may let it go on for a moment.
        let _ = raise(wanted.signal);
    }
}
