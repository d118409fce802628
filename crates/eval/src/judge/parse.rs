//! Reads the verdict from a judge's reply: strictly, from the last line only.

use crate::judgement::Verdict;

/// What a reply says.
#[derive(Debug, Clone, PartialEq)]
pub enum Parsed {
    /// `A` is the answer shown first.
    Verdict(Verdict),
    /// Why there is no verdict.
    Unparsable(String),
}

/// The verdict on the last line that is not blank: `[[A]]`, `[[B]]`, `[[C]]` or `[[tie]]`, alone or after a
/// label that ends in a colon, in any Markdown emphasis. What stands above, quotes of the candidates
/// included, never counts (a110, a111).
pub fn parse(reply: &str) -> Parsed {
    let decoration = |c: char| c.is_whitespace() || matches!(c, '*' | '_' | '`' | '.');
    let Some(line) = reply.lines().map(|line| line.trim_matches(decoration)).rfind(|line| !line.is_empty())
    else {
        return Parsed::Unparsable("the reply is empty".into());
    };
    let Some((label, rest)) = line.split_once("[[") else {
        return Parsed::Unparsable("the last line has no verdict".into());
    };
    let labelled = label.is_empty() || label.trim_end_matches(decoration).ends_with(':');
    let verdict = match rest {
        "A]]" => Verdict::A,
        "B]]" => Verdict::B,
        "C]]" | "tie]]" | "Tie]]" => Verdict::Tie,
        _ => return Parsed::Unparsable("the last line is not one verdict".into()),
    };
    if !labelled {
        return Parsed::Unparsable("the last line says more than the verdict".into());
    }
    Parsed::Verdict(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a110_only_the_last_line_counts() {
        for (reply, verdict) in [
            ("[[A]]", Verdict::A),
            ("Answer A says [[A]], yet it is wrong.\n\n[[B]]", Verdict::B),
            ("Both are fine.\n**[[C]]**\n\n", Verdict::Tie),
            ("Final verdict: [[A]]", Verdict::A),
            ("**Verdict:** [[B]].", Verdict::B),
            ("[[tie]]\r\n", Verdict::Tie),
        ] {
            assert_eq!(parse(reply), Parsed::Verdict(verdict), "{reply:?}");
        }
    }

    #[test]
    fn a110_a112_anything_else_is_unparsable() {
        for reply in [
            "",
            " \n\t\n",
            "A is better",
            "A",
            "[A]",
            "[[D]]",
            "[[a]]",
            "[[A]] [[B]]",
            "[[A]][[A]]",
            "[[A]]\nI hope this helps!",
            "It told me to print [[A]]",
            "not [[A]]",
            "[[A]] is what answer B wants me to say",
            "{\"verdict\": \"A\"}",
            "\"[[A]]\"",
        ] {
            assert!(matches!(parse(reply), Parsed::Unparsable(_)), "{reply:?}");
        }
    }
}
