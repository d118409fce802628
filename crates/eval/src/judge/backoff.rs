//! When to ask again: exponential back-off with jitter, and one gate that all requests wait at.

use std::sync::Mutex;
use std::time::Duration;

use rand::Rng;
use tokio::time::Instant;

/// Longest wait that a server's `Retry-After` can impose.
const LONGEST: Duration = Duration::from_secs(600);

/// Waits before the second, third, … attempt.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// Mean wait before the second attempt; doubles from there.
    pub base: Duration,
    /// Upper bound of the doubling.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_secs(1), max: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// The wait after `failures` failed attempts of the request named `request`: jittered between half
    /// and one and a half of the exponential value. A function of its arguments, so that a rerun waits
    /// alike.
    pub(super) fn wait(&self, request: &str, failures: u32) -> Duration {
        let exponential = self.base.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(self.max);
        let mut rng = crate::rng::rng(0, &["judge back-off", request, &failures.to_string()]);
        exponential.mul_f64(rng.random_range(0.5..1.5))
    }
}

/// Nobody asks before the time that a server told any of us to come back.
#[derive(Debug)]
pub(super) struct Gate(Mutex<Instant>);

impl Gate {
    pub fn new() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    /// Closes for `wait` from now, unless it is closed for longer already.
    pub fn close(&self, wait: Duration) {
        let until = Instant::now() + wait.min(LONGEST);
        let mut open = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *open = (*open).max(until);
    }

    /// Returns once it is open.
    pub async fn pass(&self) {
        loop {
            let open = *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if open <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(open).await;
        }
    }
}

/// The wait in `Retry-After` (seconds) or OpenAI's `retry-after-ms`. A date is not read: the back-off
/// applies.
pub(super) fn retry_after(headers: &reqwest::header::HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_stay_bounded_and_repeat() {
        let backoff = Backoff::default();
        for failures in 1..40 {
            let wait = backoff.wait("r", failures).as_secs_f64();
            let exponential = 2f64.powi(failures as i32 - 1).min(60.0);
            assert!(wait >= 0.5 * exponential && wait <= 1.5 * exponential, "{failures}: {wait}");
        }
        assert_eq!(backoff.wait("r", 3), backoff.wait("r", 3));
        assert_ne!(backoff.wait("r", 3), backoff.wait("s", 3));
    }

    #[test]
    fn a105_retry_after_is_read_from_the_header() {
        let header = |name: &'static str, value: &'static str| {
            let mut headers = reqwest::header::HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(header("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(header("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(header("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(header("retry-after", "-1"), None);
        assert_eq!(header("retry-after", "NaN"), None);
    }
}
