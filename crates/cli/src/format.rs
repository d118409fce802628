//! Numbers for people.

/// `850 ms`, `12.3 s`, `4 min 05 s`, `2 h 03 min`.
pub fn seconds(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        _ if seconds < 1.0 => format!("{:.0} ms", seconds * 1000.0),
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// `512 MiB`
pub fn bytes(bytes: u64) -> String {
    let bytes = bytes as f64;
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = ((bytes.max(1.0).log2() / 10.0) as usize).min(units.len() - 1);
    let value = bytes / 1024f64.powi(power as i32);
    if power == 0 || value >= 100.0 {
        format!("{value:.0} {}", units[power])
    } else {
        format!("{value:.1} {}", units[power])
    }
}

/// `90s`, `30min`, `12h`, `7d`, as in pipeline files, but never without a unit.
pub fn duration(text: &str) -> Result<std::time::Duration, String> {
    let seconds = spec::Unit::Seconds.parse(text).filter(|_| text.ends_with(|c: char| c.is_alphabetic()));
    let duration = seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "a number and s, min, h or d, such as 7d".to_owned())
}

/// How long ago, from milliseconds since 1970: `3 min ago`.
pub fn ago(then_ms: i64, now_ms: i64) -> String {
    let seconds = (now_ms - then_ms).max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// A number with as many digits as matter.
pub fn number(value: f64) -> String {
    if value == 0.0 || (1e-3..1e5).contains(&value.abs()) {
        let digits = if value.abs() >= 100.0 { 1 } else { 4 };
        let text = format!("{value:.digits$}");
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        return text.to_owned();
    }
    format!("{value:.2e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_people() {
        assert_eq!(seconds(0.25), "250 ms");
        assert_eq!(seconds(12.34), "12.3 s");
        assert_eq!(seconds(245.0), "4 min 05 s");
        assert_eq!(seconds(7380.0), "2 h 03 min");
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(700 << 20), "700 MiB");
        assert_eq!(ago(0, 180_000), "3 min ago");
        assert_eq!(duration("7d").map(|d| d.as_secs()), Ok(604_800));
        assert_eq!(duration("90 s").map(|d| d.as_secs()), Ok(90));
        assert!(duration("7").is_err() && duration("d").is_err() && duration("-7d").is_err());
        assert_eq!(number(0.05), "0.05");
        assert_eq!(number(3.0), "3");
        assert_eq!(number(5e-5), "5.00e-5");
    }
}
