//! The doors to the clock and to randomness for names.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970. Only ever shown and sorted by; nothing is decided by it.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

/// `digits` random hex digits (at most 64).
pub fn random_hex(digits: usize) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut seed = [0u8; 32];
    let read = File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut seed));
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed);
    if read.is_err() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        hasher.update(&now.to_le_bytes()).update(&std::process::id().to_le_bytes());
    }
    hasher.update(&COUNT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    hasher.finalize().to_hex()[..digits].to_owned()
}

/// `text` with everything that does not belong in a file name replaced, at most 40 bytes.
pub fn slug(text: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    text.chars().take(40).map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_safe_file_names() {
        assert_eq!(slug("../a b/ü\n"), "---a-b---");
        assert_eq!(slug(&"x".repeat(300)).len(), 40);
    }

    #[test]
    fn ids_differ() {
        let ids: std::collections::BTreeSet<_> = (0..1000).map(|_| random_hex(12)).collect();
        assert_eq!(ids.len(), 1000);
    }
}
