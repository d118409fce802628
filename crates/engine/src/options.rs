//! How runs are carried out. Nothing here changes a result.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use spec::Executor;

/// Execution options of an [`Engine`](crate::Engine).
#[derive(Debug, Clone)]
pub struct Options {
    /// Program and arguments of a worker; the attempt's folder is appended.
    pub worker: Vec<OsString>,
    /// What relative paths in a plan are relative to, and where workers run.
    pub cwd: PathBuf,
    /// What the user typed.
    pub command: String,
    /// Devices that a stage with `device = "auto"` may get, best first: `cuda:0`, …; empty means `cpu`.
    pub accelerators: Vec<String>,
    /// Used instead of the plan's `[executor]`: it may have changed since a run was planned.
    pub executor: Option<Executor>,
}

impl Options {
    /// On the CPU, with the plan's own `[executor]`.
    pub fn new(worker: Vec<OsString>, cwd: PathBuf, command: String) -> Self {
        Self { worker, cwd, command, accelerators: Vec::new(), executor: None }
    }
}

/// What happens after an infrastructure failure.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// Failures in a row without a new checkpoint that are forgiven.
    pub failures: u32,
    /// Before the first retry; doubled for each further one, up to a minute (or this, if it is longer).
    pub first_delay: Duration,
}

impl Retry {
    /// As the `[executor]` table says.
    pub fn new(executor: &Executor) -> Self {
        let first_delay = Duration::try_from_secs_f64(executor.retry_delay).unwrap_or_default();
        Self { failures: executor.infra_retries, first_delay }
    }

    /// The wait after the `failure`th failure in a row (the first is 1).
    pub fn delay(&self, failure: u32) -> Duration {
        let factor = 2u32.saturating_pow(failure.saturating_sub(1));
        self.first_delay.saturating_mul(factor).min(self.first_delay.max(Duration::from_secs(60)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e113_delays_double_up_to_a_bound() {
        let retry = Retry { failures: 3, first_delay: Duration::from_secs(1) };
        let delays: Vec<u64> = (1..=9).map(|n| retry.delay(n).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(retry.delay(u32::MAX).as_secs(), 60);
    }
}
