//! HTML bodies as Markdown: fenced code blocks, `-` lists, inline links, entities resolved.

use htmd::HtmlToMarkdown;
use htmd::options::{BulletListMarker, CodeBlockStyle, HeadingStyle, Options};

/// Turns HTML fragments into Markdown; made once, used for many.
pub struct ToMarkdown(HtmlToMarkdown);

impl Default for ToMarkdown {
    fn default() -> Self {
        let options = Options {
            heading_style: HeadingStyle::Atx,
            bullet_list_marker: BulletListMarker::Dash,
            ul_bullet_spacing: 1,
            ol_number_spacing: 1,
            code_block_style: CodeBlockStyle::Fenced,
            ..Options::default()
        };
        Self(HtmlToMarkdown::builder().options(options).skip_tags(vec!["script", "style"]).build())
    }
}

impl ToMarkdown {
    /// The Markdown of an HTML fragment, without blank lines at its ends.
    pub fn convert(&self, html: &str) -> Result<String, std::io::Error> {
        Ok(self.0.convert(html)?.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn markdown(html: &str) -> String {
        ToMarkdown::default().convert(html).expect("converts")
    }

    #[test]
    fn code_blocks_keep_their_lines_and_characters() {
        let html = "<p>Try:</p>\n\n<pre><code>if a &lt; b:\n    run(*x)  # two  spaces\n</code></pre>\n";
        assert_eq!(markdown(html), "Try:\n\n```\nif a < b:\n    run(*x)  # two  spaces\n```");
        assert_eq!(markdown("<p>call <code>f(x)_y_</code> now</p>"), "call `f(x)_y_` now");
    }

    #[test]
    fn lists_links_quotes_and_emphasis_survive() {
        assert_eq!(markdown("<ul><li>one</li><li>two</li></ul>"), "- one\n- two");
        assert_eq!(markdown("<ol><li>one</li><li>two</li></ol>"), "1. one\n2. two");
        assert_eq!(
            markdown("<a href=\"https://a.example/?x=1&amp;y=2\">here</a>"),
            "[here](https://a.example/?x=1&y=2)"
        );
        assert_eq!(markdown("<blockquote><p>said</p></blockquote>"), "> said");
        assert_eq!(markdown("<p>a <strong>b</strong> <em>c</em></p>"), "a **b** *c*");
    }

    #[test]
    fn entities_become_characters_and_scripts_vanish() {
        assert_eq!(markdown("<p>caf&eacute; &#8211; 5&nbsp;&micro;l</p>"), "café – 5\u{a0}µl");
        assert_eq!(markdown("<p>a</p><script>alert(1)</script>"), "a");
        assert_eq!(markdown(""), "");
    }

    #[test]
    fn unclosed_and_nested_tags_do_not_fail() {
        assert_eq!(markdown("<p>a <b>b"), "a **b**");
        let deep = "<div>".repeat(200) + "x";
        assert_eq!(markdown(&deep), "x");
    }
}
