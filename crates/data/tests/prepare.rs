//! Preparation as a whole: splits, dropped rows, determinism, and the card.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use data::{Card, DataError, Pair, PreparedData, Reason, prepare, validate_prepare};
use proptest::prelude::*;
use serde_json::json;
use spec::stage::{Format, OnBadRow, Prepare, Source};
use testkit::Project;

fn config(path: &std::path::Path) -> Prepare {
    Prepare {
        source: Source { path: path.display().to_string(), ..Source::default() },
        eval: 1,
        ..Prepare::default()
    }
}

fn row(prompt: &str, chosen: &str, rejected: &str) -> String {
    json!({ "prompt": prompt, "chosen": chosen, "rejected": rejected }).to_string()
}

fn rows(rows: impl IntoIterator<Item = String>) -> String {
    rows.into_iter().collect::<Vec<_>>().join("\n")
}

/// Prepares rows with a changed configuration.
fn prepared(
    content: &str,
    change: impl Fn(&mut Prepare),
) -> Result<(Card, PreparedData, Project), DataError> {
    let project = Project::new();
    let mut config = config(&project.write("rows.jsonl", content));
    change(&mut config);
    let out = project.folder("out");
    let card = prepare(&config, testkit::tokenizer(), 7, &out)?;
    let data = PreparedData::open(&out)?;
    Ok((card, data, project))
}

fn all_pairs(data: &PreparedData) -> Vec<Pair> {
    data.splits().flat_map(|split| data.pairs(split).expect("reads")).collect()
}

#[test]
fn what_is_written_is_what_is_read() {
    let content = rows((0..20).map(|n| row(&format!("Question {n}?"), " yes \n", "no")));
    let (card, data, project) = prepared(&content, |_| {}).expect("prepares");
    assert_eq!(&card, data.card());
    assert_eq!(data.splits().collect::<Vec<_>>(), ["eval", "ppo", "sft"]);
    assert_eq!(
        (card.questions_read, card.answers_read, card.prompts_kept, card.pairs_kept),
        (20, 40, 20, 20)
    );
    // 19 left at 6 : 4.
    assert_eq!(data.prompts("eval").expect("reads").len(), 1);
    assert_eq!(data.prompts("ppo").expect("reads").len(), 8);
    assert_eq!(data.prompts("sft").expect("reads").len(), 11);
    let tokenizer = data::Tokenizer::load(project.path("out")).expect("is copied");
    assert_eq!(card.tokenizer, tokenizer.hash());
    for pair in all_pairs(&data) {
        assert_eq!(pair.chosen, " yes");
        assert!(pair.prompt.starts_with("Question: Question ") && pair.prompt.ends_with("?\nAnswer:"));
        assert_eq!(pair.prompt_ids, tokenizer.encode_prompt(&pair.prompt).expect("encodes"));
        assert_eq!(pair.chosen_ids, tokenizer.encode_response(&pair.chosen).expect("encodes"));
    }
    let unknown = data.pairs("stf").expect_err("no such split");
    assert!(unknown.to_string().contains("there is no split `stf`"));
}

#[test]
fn the_same_arguments_write_the_same_bytes_and_another_seed_other_splits() {
    let content = rows((0..50).map(|n| row(&format!("Question {n}?"), "yes", "no")));
    let project = Project::new();
    let config = config(&project.write("rows.jsonl", content));
    let run = |name: &str, seed: u64| {
        prepare(&config, testkit::tokenizer(), seed, &project.folder(name)).expect("prepares");
        let files = std::fs::read_dir(project.path(name)).expect("is there");
        let files = files.map(|file| file.expect("is there").path());
        files.map(|p| (p.file_name().map(ToOwned::to_owned), std::fs::read(&p).expect("reads"))).collect()
    };
    let (one, two, other): (BTreeMap<_, _>, BTreeMap<_, _>, BTreeMap<_, _>) =
        (run("a", 1), run("b", 1), run("c", 2));
    assert!(one == two && one != other);
}

#[test]
fn a43_pairs_without_a_difference_are_dropped_and_counted() {
    let long = "word ".repeat(60);
    let content = rows([
        row("same on both sides", "yes", " yes "),
        row("differ only after the limit", &format!("{long}a"), &format!("{long}b")),
        row("twice", "yes", "no"),
        row("twice", "yes", "no"),
        row("good", "yes", "no"),
        row("good too", "yes", "no"),
        row("", "yes", "no"),
        row(&long, "yes", "no"),
        row("nothing said", "", "no"),
        row("Twice!", "yes", "no"),
    ]);
    let (card, data, _project) = prepared(&content, |config| {
        config.max_prompt_length = 60;
        config.max_response_length = 20;
    })
    .expect("prepares");
    for reason in [
        Reason::SameResponses,
        Reason::ResponseTooLong,
        Reason::DuplicatePair,
        Reason::DuplicatePrompt,
        Reason::EmptyPrompt,
        Reason::PromptTooLong,
        Reason::EmptyResponse,
    ] {
        assert_eq!(card.dropped.count(reason), 1, "{reason}");
    }
    assert_eq!(card.dropped.0[&Reason::SameResponses].examples, ["line-1/chosen>rejected"]);
    let kept: BTreeSet<String> = all_pairs(&data).into_iter().map(|pair| pair.id).collect();
    let kept: Vec<&str> = kept.iter().map(|id| id.split('/').next().unwrap_or_default()).collect();
    assert_eq!(kept, ["line-10", "line-3", "line-5", "line-6"]);
}

#[test]
fn a44_a_stage_in_which_nothing_survives_fails_with_the_reasons() {
    let content =
        rows((0..64).map(|n| row(&format!("Question {n}?"), "a long answer", "another long answer")));
    let Err(error) = prepared(&content, |config| config.max_response_length = 2) else {
        panic!("was prepared")
    };
    let message = error.to_string();
    assert!(message.contains("nothing is left of the preference pairs: 64 × response too long"), "{message}");
    assert!(message.contains("line-"), "{message}");
    let Err(error) = prepared(&content, |config| config.max_prompt_length = 2) else {
        panic!("was prepared")
    };
    assert!(error.to_string().contains("nothing is left of the questions: 64 × prompt too long"));
}

#[test]
fn nothing_counts_as_prepared_before_it_is_whole() {
    let project = Project::new();
    let config = config(&project.write("rows.jsonl", row("only one", "yes", "no")));
    assert!(prepare(&config, testkit::tokenizer(), 7, &project.folder("out")).is_err());
    assert!(PreparedData::open(project.path("out")).is_err());
    assert_eq!(std::fs::read_dir(project.path("out")).expect("is there").count(), 0);
}

#[test]
fn bad_rows_stop_or_are_skipped_as_the_file_says() {
    let content =
        rows([row("a", "yes", "no"), "{\"prompt\": 1}".into(), row("b", "yes", "no"), row("c", "y", "n")]);
    assert!(matches!(prepared(&content, |_| {}), Err(DataError::BadRow { .. })));
    let (card, ..) =
        prepared(&content, |config| config.source.on_bad_row = OnBadRow::Skip).expect("prepares");
    assert_eq!(card.dropped.count(Reason::BadRow), 1);
    assert_eq!(card.dropped.0[&Reason::BadRow].examples, ["line 2"]);
}

#[test]
fn mistakes_in_the_configuration_are_found_before_anything_is_read() {
    let project = Project::new();
    let good = config(&project.write("rows.jsonl", row("a", "yes", "no")));
    validate_prepare(&good).expect("is valid");
    let refused = |change: &dyn Fn(&mut Prepare)| {
        let mut config = good.clone();
        change(&mut config);
        validate_prepare(&config).expect_err("is refused").to_string()
    };
    assert!(refused(&|c| c.prompt_template = "Question".into()).contains("has no place for the prompt"));
    assert!(refused(&|c| c.split = BTreeMap::new()).contains("no share above 0"));
    assert!(refused(&|c| c.split = [("eval".into(), 1.0)].into()).contains("`eval` is not a share"));
    assert!(refused(&|c| c.split = [("a/b".into(), 1.0)].into()).contains("`a/b` is not a name"));
    assert!(refused(&|c| c.split = [("sft".into(), f64::NAN)].into()).contains("NaN"));
    assert!(refused(&|c| c.source.path = "nowhere".into()).contains("cannot read `nowhere`"));
    let world = |questions, eval| {
        move |c: &mut Prepare| {
            c.source = Source { format: Format::SyntheticQa, questions, ..Source::default() };
            c.eval = eval;
        }
    };
    assert!(refused(&world(100_000, 10)).contains("100000 are wanted"));
    assert!(refused(&world(100, 100)).contains("would hold out all 100 questions"));
}

#[test]
fn the_real_dump_is_prepared() {
    let Some(path) = testkit::shared_data("stackexchange/coffee-Posts.xml") else { return };
    let project = Project::new();
    let mut config = config(&path);
    config.source.format = Format::StackexchangeDump;
    config.eval = 20;
    config.max_response_length = 100_000;
    config.max_prompt_length = 100_000;
    let card = prepare(&config, testkit::tokenizer(), 7, &project.folder("out")).expect("prepares");
    assert_eq!((card.questions_read, card.answers_read), (225, 327));
    assert_eq!(card.pairs_kept + card.dropped.count(Reason::EmptyResponse), 129);
    assert_eq!(card.splits["eval"].prompts, 20);
}

fn prompts() -> impl Strategy<Value = Vec<(u8, u8)>> {
    proptest::collection::vec((0u8..40, 0u8..4), 12..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_question_is_in_one_split_and_no_group_on_two_sides(
        drawn in prompts(), eval in 1usize..4, share in 1u8..9, seed: u64
    ) {
        let marks = ["?", " ?", "", "!"];
        let content = rows(drawn.iter().enumerate().map(|(n, (text, mark))| {
            row(&format!("Question number {text}{}", marks[*mark as usize]), &format!("yes {n}"), "no")
        }));
        let project = Project::new();
        let mut config = config(&project.write("rows.jsonl", &content));
        config.eval = eval;
        config.split = [("sft".into(), f64::from(share)), ("ppo".into(), 10.0 - f64::from(share))].into();
        let out = project.folder("out");
        match prepare(&config, testkit::tokenizer(), seed, &out) {
            Ok(_) => {}
            // With few different questions a split may stay empty, which is an error and not a silent gap.
            Err(DataError::Split { .. }) => return Ok(()),
            Err(other) => panic!("{other}"),
        }
        let data = PreparedData::open(&out).expect("opens");
        let mut seen: HashMap<String, String> = HashMap::new();
        let mut count = 0;
        for split in data.splits() {
            for pair in data.pairs(split).expect("reads") {
                count += 1;
                let key: String = pair.prompt.chars().filter(char::is_ascii_digit).collect();
                let before = seen.insert(key, split.to_owned());
                prop_assert!(before.is_none_or(|before| before == split));
            }
        }
        prop_assert_eq!(count, drawn.len());
        prop_assert!(data.prompts("eval").expect("reads").len() <= data.pairs("eval").expect("reads").len());
        prop_assert!(data.pairs("eval").expect("reads").len() >= eval);
    }
}
