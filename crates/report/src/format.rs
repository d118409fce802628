//! Numbers as a person reads them.

use eval::Interval;

/// What stands for a number that there is none of.
pub(crate) const NONE: &str = "–";

/// Four significant digits, without trailing zeros; integers in full.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return NONE.into();
    }
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-4..7).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = usize::try_from(3 - magnitude).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// A value that is in percent already.
pub(crate) fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

/// A share from 0 to 1, in percent.
pub(crate) fn share(value: f64) -> String {
    percent(100.0 * value)
}

/// The ends of an interval, scaled: `62.1–70.3`.
pub(crate) fn ends(interval: &Interval, scale: f64) -> String {
    format!("{:.1}–{:.1}", scale * interval.low, scale * interval.high)
}

/// `1:04:05`, `4:05` or `5.2 s`.
pub(crate) fn duration(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// Decimal units, as disks and `ls --si` have them.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        0..1_000_000 => format!("{} kB", count / 1000),
        1_000_000..1_000_000_000 => format!("{:.0} MB", count as f64 / 1e6),
        _ => format!("{:.2} GB", count as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (12.0, "12"),
            (1234567.0, "1234567"),
            (0.5, "0.5"),
            (0.123456, "0.1235"),
            (-3.25519, "-3.255"),
            (123.456, "123.5"),
            (12345.6, "12346"),
            (0.00012345, "0.0001234"),
            (0.0000012, "1.200e-6"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), text, "{value}");
        }
    }

    #[test]
    fn units() {
        assert_eq!((duration(5.25).as_str(), duration(245.0).as_str()), ("5.2 s", "4:05"));
        assert_eq!(duration(3845.0), "1:04:05");
        assert_eq!((bytes(2_500).as_str(), bytes(812_000_000).as_str()), ("2 kB", "812 MB"));
        assert_eq!(bytes(1_234_000_000), "1.23 GB");
    }
}
