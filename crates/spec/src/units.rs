//! Quantities with a unit: `"40 GB"`, `"2h"`, `"5%"`.

use serde::Serialize;

/// What a number stands for, and so which suffixes its string form may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// `"40 GB"` (powers of 1000), `"40 GiB"` (powers of 1024); a bare number is bytes.
    Bytes,
    /// `"500ms"`, `"30s"`, `"5m"`, `"2h"`, `"1d"`; a bare number is seconds.
    Seconds,
    /// `"5%"`; a bare number is the share itself, `0.05`.
    Ratio,
}

impl Unit {
    /// How a value may be written, for people.
    pub fn example(self) -> &'static str {
        match self {
            Unit::Bytes => "a size such as \"40 GB\" or \"512 MiB\", or a number of bytes",
            Unit::Seconds => "a duration such as \"30s\", \"5m\" or \"2h\", or a number of seconds",
            Unit::Ratio => "a share such as 0.05 or \"5%\"",
        }
    }

    fn factor(self, suffix: &str) -> Option<f64> {
        let factor = match self {
            Unit::Bytes => match suffix.to_ascii_lowercase().as_str() {
                "" | "b" => 1.0,
                "kb" | "k" => 1e3,
                "mb" | "m" => 1e6,
                "gb" | "g" => 1e9,
                "tb" | "t" => 1e12,
                "kib" => 1024.0,
                "mib" => 1_048_576.0,
                "gib" => 1_073_741_824.0,
                "tib" => 1_099_511_627_776.0,
                _ => return None,
            },
            Unit::Seconds => match suffix {
                "" | "s" | "sec" | "second" | "seconds" => 1.0,
                "ms" => 1e-3,
                "m" | "min" | "minute" | "minutes" => 60.0,
                "h" | "hour" | "hours" => 3600.0,
                "d" | "day" | "days" => 86_400.0,
                _ => return None,
            },
            Unit::Ratio => match suffix {
                "" => 1.0,
                "%" => 0.01,
                _ => return None,
            },
        };
        Some(factor)
    }

    /// Reads the string form into bytes, seconds or a share; `None` when it has none.
    pub fn parse(self, text: &str) -> Option<f64> {
        let text = text.trim();
        let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        let number: f64 = number.replace('_', "").parse().ok()?;
        let factor = self.factor(suffix.trim())?;
        // Dividing keeps "5%" at the double nearest to 0.05, which 5 * 0.01 is not.
        Some(if factor < 1.0 { number / (1.0 / factor).round() } else { number * factor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e67_sizes_have_units() {
        assert_eq!(Unit::Bytes.parse("40 GB"), Some(40e9));
        assert_eq!(Unit::Bytes.parse("40gib"), Some(40.0 * 1_073_741_824.0));
        assert_eq!(Unit::Bytes.parse("1_000"), Some(1000.0));
        assert_eq!(Unit::Bytes.parse("40 parsecs"), None);
        assert_eq!(Unit::Bytes.parse("GB"), None);
        assert_eq!(Unit::Bytes.parse("-1 GB"), None);
    }

    #[test]
    fn durations_and_ratios() {
        assert_eq!(Unit::Seconds.parse("30s"), Some(30.0));
        assert_eq!(Unit::Seconds.parse("2h"), Some(7200.0));
        assert_eq!(Unit::Seconds.parse("1.5 m"), Some(90.0));
        assert_eq!(Unit::Seconds.parse("250ms"), Some(0.25));
        assert_eq!(Unit::Seconds.parse("2 fortnights"), None);
        assert_eq!(Unit::Ratio.parse("5%"), Some(0.05));
        assert_eq!(Unit::Ratio.parse("0.2"), Some(0.2));
        assert_eq!(Unit::Ratio.parse("%"), None);
    }
}
