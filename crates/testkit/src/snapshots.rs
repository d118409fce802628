//! What differs from run to run, masked in snapshots.

/// Regular expressions and what to put in their place, for `insta::Settings::set_filters`.
pub fn filters() -> Vec<(&'static str, &'static str)> {
    vec![
        (r"\x1b\[[0-9;]*m", ""),
        (r"/[^\s`\x22]*pipeline-test-[A-Za-z0-9]+", "[project]"),
        (r"\b[0-9a-f]{64}\b", "[hash]"),
        (r"\b[0-9a-f]{16}\b", "[hash]"),
        (r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "[id]"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "[id]"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?\b", "[time]"),
        (r"\b\d+(\.\d+)? ?(ms|s|min|h)\b", "[duration]"),
        (r"\b\d+(\.\d+)? ?(KiB|MiB|GiB|kB|MB|GB)\b", "[size]"),
    ]
}
