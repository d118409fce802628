//! Whatever is in a file, the answer is a pipeline or messages that can be shown.

use miette::{GraphicalReportHandler, GraphicalTheme};
use proptest::prelude::*;
use spec::{Override, parse};

const GOOD: &str = "[pipeline]\nname = \"t\"\n[lora]\nr = 8\n[stages.base]\nkind = \"pretrain\"\nformat = \"synthetic-qa\"\n\
    [stages.d]\nkind = \"prepare\"\npath = \"p.jsonl\"\nmodel = \"base\"\nsplit = { sft = 6, ppo = 4 }\n\
    [stages.sft]\nkind = \"hydra-sft\"\nmodel = \"base\"\ndata = \"d\"\n\
    [stages.a]\nkind = \"generate\"\nmodels = [\"sft\"]\ndata = \"d\"\n";

/// Pieces that mistakes are made of.
const PIECES: &[&str] = &[
    "",
    "\"",
    "[",
    "]",
    "=",
    "\n",
    "{",
    "}",
    "é→",
    "sft",
    "\"sft\"",
    "[\"a\"]",
    "[stages.d]\n",
    "[stages.\"x y\"]\n",
    "requires = [\"a\"]\n",
    "kind = \"ppo\"\n",
    "-1",
    "1e400",
    "nan",
    "\"5%\"",
    "2020-01-01",
    "true",
    "${X}",
    "99999999999999999999999",
];

fn check(text: &str, sets: &[Override]) {
    let Err(errors) = parse("t.toml", text, sets) else { return };
    assert!(!errors.mistakes.is_empty());
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
    for mistake in &errors.mistakes {
        let mut shown = String::new();
        handler.render_report(&mut shown, mistake).expect("can be shown");
        assert!(shown.contains(mistake.problem.code()), "{shown}");
    }
}

proptest! {
    #[test]
    fn any_text(text in "(?s).{0,80}") {
        check(&text, &[]);
    }

    #[test]
    fn a_good_file_with_pieces_put_in(
        edits in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(PIECES), 0usize..12), 1..4),
        set in "(stages[.](a|d|x)[.])?(data|kind|requires|split)=.{0,8}",
    ) {
        let mut text = GOOD.to_owned();
        for (index, piece, removed) in edits {
            let places: Vec<_> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let start = places[index.index(places.len())];
            let end = places.iter().copied().find(|at| *at >= start + removed).unwrap_or(text.len());
            text.replace_range(start..end, piece);
        }
        check(&text, &[]);
        check(&text, &[Override(set)]);
    }
}

#[test]
fn e104_a_long_chain_is_no_problem() {
    let mut text = String::from("[pipeline]\nname = \"t\"\n");
    for i in 0..3000 {
        let next = if i == 2999 { String::new() } else { format!("stages = [\"s{}\"]\n", i + 1) };
        text.push_str(&format!("[stages.s{i}]\nkind = \"report\"\n{next}"));
    }
    let text = text.replace(
        "[stages.s2999]\nkind = \"report\"\n",
        "[stages.s2999]\nkind = \"report\"\nrequires = [\"s5\"]\n",
    );
    let errors = parse("t.toml", &text, &[]).expect_err("a cycle");
    assert_eq!(errors.mistakes.len(), 1);
    let spec::Problem::Cycle { path, .. } = &errors.mistakes[0].problem else { panic!("a cycle") };
    assert_eq!(path.len(), 2996);
}
