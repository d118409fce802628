//! Posts.xml: the two real dumps against an independent count, and dirty files.

use std::collections::BTreeMap;

use data::source::{self, Question};
use data::{DataError, Ledger, Reason, texts, validate_source};
use serde_json::Value;
use spec::stage::{Format, OnBadRow, Source};
use testkit::Project;

fn source(path: &std::path::Path) -> Source {
    Source { format: Format::StackexchangeDump, path: path.display().to_string(), ..Source::default() }
}

fn read(content: impl AsRef<[u8]>, on_bad_row: OnBadRow) -> Result<(Vec<Question>, Ledger), DataError> {
    let project = Project::new();
    source::read(&Source { on_bad_row, ..source(&project.write("Posts.xml", content)) }, 0)
}

/// The message, with the file's folder left out.
fn error(content: impl AsRef<[u8]>) -> String {
    let project = Project::new();
    let path = project.write("Posts.xml", content);
    let error = source::read(&source(&path), 0).expect_err("is refused").to_string();
    error.replace(&project.root().display().to_string(), "")
}

const GOOD: &str = concat!(
    "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n<posts>\r\n",
    r#"  <row Id="12" PostTypeId="2" ParentId="10" Score="7" Body="&lt;p&gt;Before its question&lt;/p&gt;" />"#,
    "\r\n",
    r#"  <row Id="10" PostTypeId="1" AcceptedAnswerId="13" Score="3" Title="Why &amp; how?" "#,
    r#"Body="&lt;p&gt;See:&lt;/p&gt;&#xA;&lt;pre&gt;&lt;code&gt;a &amp;lt; b&#xA;&lt;/code&gt;&lt;/pre&gt;" Tags="&lt;x&gt;" />"#,
    r#"<row Id="13" PostTypeId="2" ParentId="10" Score="-2" Body="So." OwnerDisplayName="gone" />"#,
    r#"<row Id="14" PostTypeId="2" ParentId="99" Score="1" Body="An orphan" />"#,
    r#"<row Id="15" PostTypeId="5" Score="0" Body="" />"#,
    r#"<row Id="16" PostTypeId="1" Score="0" Title="Nobody knows" Body="" /></posts>"#,
);

#[test]
fn real_dumps_equal_the_independent_count() {
    let golden = std::fs::read_to_string("tests/golden/stackexchange_counts.json").expect("is there");
    let golden: BTreeMap<String, Value> = serde_json::from_str(&golden).expect("is JSON");
    for (file, expected) in golden {
        let Some(path) = testkit::shared_data(&format!("stackexchange/{file}")) else { return };
        validate_source(&source(&path)).expect("is valid");
        let (questions, ledger) = source::read(&source(&path), 0).expect("reads");
        assert!(ledger.0.is_empty(), "{ledger:?}");
        assert_eq!(expected["questions"], questions.len());
        assert_eq!(expected["answers"], questions.iter().map(|q| q.answers.len()).sum::<usize>());
        let mut histogram: BTreeMap<String, usize> = BTreeMap::new();
        let (mut unequal, mut capped) = (0, 0);
        for question in &questions {
            assert!(
                !question.prompt.contains("&lt;") && !question.prompt.contains("<p>"),
                "{}",
                question.prompt
            );
            let scores: Vec<i64> = question.answers.iter().map(|answer| answer.score).collect();
            let pairs =
                scores.iter().enumerate().flat_map(|(at, a)| scores[at + 1..].iter().map(move |b| a != b));
            let pairs = pairs.filter(|differ| *differ).count();
            (unequal, capped) = (unequal + pairs, capped + pairs.min(10));
            scores.iter().for_each(|score| *histogram.entry(score.to_string()).or_default() += 1);
        }
        assert_eq!(expected["pairs_with_unequal_scores"], unequal);
        assert_eq!(expected["pairs_within_limit"], capped);
        assert_eq!(expected["score_histogram"], serde_json::to_value(histogram).expect("is JSON"));
    }
}

#[test]
fn a_dump_with_mark_entities_and_answers_before_questions_is_read() {
    let (questions, ledger) = read(GOOD, OnBadRow::Error).expect("reads");
    assert_eq!(questions.len(), 2);
    assert_eq!(questions[0].prompt, "Why & how?\n\nSee:\n\n```\na < b\n```");
    assert_eq!(questions[1].prompt, "Nobody knows");
    let answers: Vec<(&str, &str, i64)> =
        questions[0].answers.iter().map(|a| (a.id.as_str(), a.text.as_str(), a.score)).collect();
    // log2(1 + 7) = 3; negative but accepted: -1 + 1.
    assert_eq!(answers, [("12", "Before its question", 3), ("13", "So.", 0)]);
    assert_eq!(ledger.count(Reason::OrphanAnswer), 1);
    assert_eq!(ledger.0[&Reason::OrphanAnswer].examples, ["14"]);
}

#[test]
fn the_score_rule_is_that_of_the_preference_set() {
    let score = data::source::stackexchange_dump::score;
    let scores: Vec<i64> =
        [-5, -1, 0, 1, 2, 3, 4, 5, 10, 11, 22, 23, 1000].map(|votes| score(votes, false)).into();
    assert_eq!(scores, [-1, -1, 0, 1, 2, 2, 2, 3, 3, 4, 5, 5, 10]);
    assert_eq!(score(3, true), 3);
}

#[test]
fn documents_are_answers_under_their_question() {
    let project = Project::new();
    let documents = texts(&source(&project.write("Posts.xml", GOOD)), 0).expect("reads");
    let ids: Vec<&str> = documents.iter().map(|document| document.id.as_str()).collect();
    assert_eq!(ids, ["10/12", "10/13", "16"]);
    assert!(documents[0].text.starts_with("Question: Why & how?\n\nSee:"));
    assert!(documents[0].text.ends_with("\nAnswer: Before its question"));
    assert_eq!(documents[2].text, "Question: Nobody knows");
}

#[test]
fn what_is_no_dump_is_named() {
    assert!(error("<users><row Id=\"1\" /></users>").contains("its root is `<users>`"));
    assert!(error("").contains("it is empty or no XML"));
    assert!(error("id,text\n1,hello\n").contains("/Posts.xml` is not a Stack Exchange dump: it is no XML"));
    assert!(error("{\"prompt\": \"x\"}").contains("it is no XML"));
    assert!(error([0x1f, 0x8b, 8, 0, 255]).contains("is not a Stack Exchange dump"));
    assert!(error("<posts></posts>").contains("no usable row: no question among its 0 rows"));
    assert!(error("<posts/>").contains("no usable row"));
    let only_answers = r#"<posts><row Id="1" PostTypeId="2" ParentId="3" Score="0" Body="b" /></posts>"#;
    assert!(error(only_answers).contains("no question among its 1 rows"));
    let missing = source::read(&source("nowhere/Posts.xml".as_ref()), 0).expect_err("missing");
    assert!(matches!(missing, DataError::Read { .. }) && missing.to_string().contains("nowhere/Posts.xml"));
}

#[test]
fn a_dump_cut_anywhere_is_named_with_its_byte() {
    let end = GOOD.find("</posts>").expect("ends");
    for cut in (70..GOOD.len() - 1).filter(|cut| GOOD.is_char_boundary(*cut)) {
        let message = error(&GOOD[..cut]);
        assert!(message.contains("/Posts.xml` is damaged at byte "), "cut at {cut}: {message}");
        if cut == end {
            assert!(message.ends_with(&format!("byte {cut}: it ends before `</posts>`")), "{message}");
        }
    }
}

#[test]
fn a53_bad_rows_are_named_or_skipped_and_counted() {
    let row = |row: &str| {
        format!("<posts><row Id=\"1\" PostTypeId=\"1\" Title=\"t\" Body=\"b\" Score=\"0\" />{row}</posts>")
    };
    for (bad, problem) in [
        (r#"<row Id="2" PostTypeId="2" ParentId="1" Body="b" />"#, "row 2 (Id 2): there is no `Score`"),
        (r#"<row Id="2" PostTypeId="2" ParentId="1" Score="3" />"#, "row 2 (Id 2): there is no `Body`"),
        (r#"<row Id="2" PostTypeId="2" Score="3" Body="b" />"#, "row 2 (Id 2): there is no `ParentId`"),
        (
            r#"<row Id="2" PostTypeId="2" ParentId="1" Score="3.5" Body="b" />"#,
            "row 2 (Id 2): `Score` is `3.5`, not a whole number",
        ),
        (r#"<row Id="2" PostTypeId="1" Body="b" />"#, "row 2 (Id 2): there is no `Title`"),
        (r#"<row PostTypeId="1" Title="t" Body="b" />"#, "row 2: there is no `Id`"),
        (r#"<row Id="2" />"#, "row 2 (Id 2): there is no `PostTypeId`"),
        (
            r#"<row Id="1" PostTypeId="1" Title="t" Body="b" />"#,
            "row 2 (Id 1): a question with this Id came before",
        ),
        (r#"<row Id="2" PostTypeId="1" Title="&nope;" Body="b" />"#, "row 2 (Id 2): attribute `Title`"),
        (r#"<row Id="2" PostTypeId="1" Title="a" Title="b" Body="b" />"#, "row 2 (Id 2): "),
    ] {
        let message = error(row(bad));
        assert!(message.contains(&format!("/Posts.xml:{problem}")), "{message}");
        let (questions, ledger) = read(row(bad), OnBadRow::Skip).expect("is skipped");
        assert_eq!((questions.len(), ledger.count(Reason::BadRow)), (1, 1), "{bad}");
    }
}

#[test]
fn invalid_utf8_is_damage() {
    let mut bytes = GOOD.as_bytes().to_vec();
    let at = GOOD.find("Nobody").expect("is there");
    bytes[at] = 0xff;
    assert!(error(bytes).contains("is damaged at byte "));
}
