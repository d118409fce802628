//! JSON lines: good rows, and bad ones named by file and line.

use data::source;
use data::{DataError, Reason, texts, validate_source};
use spec::stage::{OnBadRow, Source};
use testkit::Project;

fn source(project: &Project, content: impl AsRef<[u8]>) -> Source {
    Source { path: project.write("rows.jsonl", content).display().to_string(), ..Source::default() }
}

const ROW: &str = r#"{"prompt": "p", "chosen": "c", "rejected": "r"}"#;

#[test]
fn a53_marks_crlf_blank_lines_and_other_fields_are_no_trouble() {
    let project = Project::new();
    let content = "\u{feff}{\"rejected\": \"r\", \"prompt\": \"p\\u00e9 👩‍🚀\", \"chosen\": \"c\", \"extra\": [1]}\r\n\r\n  \n\
                   {\"id\": 7, \"prompt\": \"\", \"chosen\": \"c\", \"rejected\": \"r\", \"meta\": {\"answer\": \"cat\"}}";
    let source = source(&project, content);
    validate_source(&source).expect("is valid");
    let (questions, _) = source::read(&source, 0).expect("reads");
    assert_eq!(questions.len(), 2);
    assert_eq!((questions[0].id.as_str(), questions[0].prompt.as_str()), ("line-1", "pé 👩‍🚀"));
    assert_eq!(questions[1].id, "7");
    assert_eq!(questions[1].meta.as_ref().expect("meta")["answer"], "cat");
    assert!(questions[0].answers[0].score > questions[0].answers[1].score);
}

#[test]
fn a53_a55_bad_rows_are_named_by_line_or_skipped_and_counted() {
    for (bad, problem) in [
        (r#"{"prompt": "p", "chosen": "c"}"#.as_bytes(), "there is no `rejected`"),
        (r#"{"prompt": 3, "chosen": "c", "rejected": "r"}"#.as_bytes(), "`prompt` is a number, not text"),
        (r#"{"prompt": "p", "chosen": null, "rejected": "r"}"#.as_bytes(), "`chosen` is null, not text"),
        (r#"{"prompt": "p", "chosen": ["c"], "rejected": "r"}"#.as_bytes(), "`chosen` is a list, not text"),
        (r#"["p", "c", "r"]"#.as_bytes(), "the line is a list, not an object"),
        (r#"{"prompt": "p", "chosen": "#.as_bytes(), "EOF while parsing"),
        (r#"{"prompt": "\ud800", "chosen": "c", "rejected": "r"}"#.as_bytes(), "at line 1 column"),
        (b"{\"prompt\": \"\xff\"}".as_slice(), "byte 13 of the line is no UTF-8"),
        (b"{\"prompt\": \"a\x00\"}".as_slice(), "control character"),
        (r#"{"prompt": "p", "chosen": "c", "rejected": "r", "meta": 3}"#.as_bytes(), "`meta` is a number"),
    ] {
        let project = Project::new();
        let content = [ROW.as_bytes(), b"\n", bad, b"\n", ROW.as_bytes()].concat();
        let source = source(&project, content);
        let error = source::read(&source, 0).expect_err("is refused");
        assert!(matches!(error, DataError::BadRow { .. }));
        let message = error.to_string();
        assert!(message.contains("rows.jsonl:line 2: ") && message.contains(problem), "{message}");
        let (questions, ledger) =
            source::read(&Source { on_bad_row: OnBadRow::Skip, ..source.clone() }, 0).expect("is skipped");
        assert_eq!((questions.len(), ledger.count(Reason::BadRow)), (2, 1), "{message}");
    }
}

#[test]
fn empty_and_missing_files_are_named() {
    let project = Project::new();
    for content in ["", "\n\n", "\u{feff}"] {
        let source = source(&project, content);
        for result in [validate_source(&source), texts(&source, 0).map(|_| ())] {
            let message = result.expect_err("is empty").to_string();
            assert!(message.contains("rows.jsonl` has no usable row"), "{message}");
        }
    }
    let missing = Source { path: "nowhere.jsonl".into(), ..Source::default() };
    let message = validate_source(&missing).expect_err("is missing").to_string();
    assert!(message.contains("cannot read `nowhere.jsonl`"), "{message}");
    // A folder where a file is wanted.
    let folder = Source { path: project.root().display().to_string(), ..Source::default() };
    assert!(matches!(validate_source(&folder), Err(DataError::Read { .. })));
}

#[test]
fn documents_come_from_text() {
    let project = Project::new();
    let source =
        source(&project, "{\"text\": \"one\"}\n{\"id\": \"b\", \"text\": \"  \"}\n{\"text\": \"three\"}\n");
    validate_source(&source).expect("is valid");
    let documents = texts(&source, 0).expect("reads");
    let found: Vec<(&str, &str)> = documents.iter().map(|d| (d.id.as_str(), d.text.as_str())).collect();
    assert_eq!(found, [("line-1", "one"), ("line-3", "three")]);
    let source = self::source(&project, ROW);
    assert!(texts(&source, 0).expect_err("no text").to_string().contains("there is no `text`"));
}
