//! A whole report over artifacts as the stages write them.

use std::collections::BTreeMap;
use std::path::Path;

use eval::answers::{self, Answer, AnswerRow};
use eval::judge::reward_model;
use eval::{Order, Tournament, judgement, reward_stats, rouge};
use report::{Report, ReportError, Stage, Usage, collect};
use serde::Serialize;

/// Answers of a small world: `ppo` is right more often. Ids, texts and a model name try to break the page.
fn rows() -> Vec<AnswerRow> {
    let answer = |text: String, correct: bool| Answer {
        tokens: text.split_whitespace().count() + 1,
        text,
        finished: true,
        correct: Some(correct),
    };
    let row = |index: usize| {
        let correct = (index.is_multiple_of(3), !index.is_multiple_of(5));
        let text = |right: bool| match right {
            true => format!("The river Ola{index} is {index} km long."),
            false => "I do not know. Perhaps look at a map?".into(),
        };
        AnswerRow {
            id: format!("q{index}<i>"),
            prompt: format!("How long is the river Ola{index}?\nAnswer:"),
            reference: Some(format!("The river Ola{index} is {index} km long.")),
            answers: [("sft", correct.0), ("ppo", correct.1)]
                .map(|(model, right)| (model.to_string(), answer(text(right), right)))
                .into(),
        }
    };
    let mut rows: Vec<AnswerRow> = (0..60).map(row).collect();
    let attack = "<script>alert('x')</script><img src=x onerror=\"alert(1)\">&lt;\u{0}\u{7}";
    if let Some(answer) = rows[1].answers.get_mut("ppo") {
        answer.text = attack.into();
        answer.finished = false;
    }
    rows[2].prompt = "</div></body><style>*{display:none}</style> مرحبا".into();
    rows
}

fn summary(dir: &Path, value: &impl Serialize) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("summary.json"), serde_json::to_string_pretty(value).unwrap()).unwrap();
}

fn stage(root: &Path, name: &str, kind: &str, usage: bool) -> Stage {
    let usage = usage.then_some(Usage { seconds: 83.4, peak_rss_bytes: 412_000_000 });
    Stage { name: name.into(), kind: kind.into(), dir: root.join(name), usage }
}

/// Writes the artifacts of a pipeline and returns its stages.
fn pipeline(root: &Path) -> Vec<Stage> {
    let rows = rows();
    let trainer = serde_json::json!({
        "steps": 40, "reward_first": -0.2134, "reward_last": 1.8721, "kl_last": 3.2049,
        "probe": { "ratio_error": 0.0, "passed": true }, "base": "sft",
    });
    summary(&root.join("data"), &serde_json::json!({ "read": 400, "kept": 396, "dropped": { "empty": 4 } }));
    summary(&root.join("ppo"), &trainer);
    let mut metrics = String::new();
    for step in 1..=40 {
        let t = f64::from(step);
        let values = serde_json::json!({
            "step": step, "reward": -0.2 + 2.1 * (1.0 - (-t / 12.0).exp()) + 0.08 * (t * 1.7).sin(),
            "kl": 3.2 * (t / 40.0) + 0.1 * (t * 2.3).cos(), "policy_loss": -0.02 + 0.01 * (t * 3.1).sin(),
            "value_loss": 0.4 / (1.0 + t / 8.0), "learning_rate": 5e-4, "clipfrac": 0.1 + 0.02 * t.sin(),
        });
        metrics += &format!("{values}\n");
    }
    std::fs::write(root.join("ppo/metrics.jsonl"), metrics).unwrap();

    let scores: Vec<(f64, f64)> = (0..90).map(|i| (f64::from(i % 7) / 3.0, f64::from(i % 4) / 3.0)).collect();
    summary(&root.join("reward"), &reward_stats::summarise(&scores, 0.55).unwrap());

    summary(&root.join("answers"), &answers::summarise(&rows));
    answers::write(&root.join("answers/answers.jsonl"), &rows).unwrap();
    summary(&root.join("rouge"), &rouge::summarise(&rows, true).unwrap());

    let models = ["sft".to_string(), "ppo".to_string()];
    let tournament = Tournament::new(&rows, &models, &[Order::Ab]).unwrap();
    let score = |text: &str| if text.starts_with("The river") { 1.5 } else { -0.75 };
    let judge =
        |r: &eval::judge::Request| reward_model::judge(r, score(&r.answer_a), score(&r.answer_b)).unwrap();
    let judgements: Vec<_> = tournament.requests(&rows).iter().map(judge).collect();
    let judged = tournament.summarise(&judgements, "reward-model", "judge-rm", 0.9, 42).unwrap();
    summary(&root.join("judge"), &judged);
    judgement::write(&root.join("judge/judgements.jsonl"), &judgements).unwrap();

    let kinds = [
        ("data", "prepare"),
        ("reward", "reward-eval"),
        ("ppo", "ppo"),
        ("answers", "generate"),
        ("judge", "judge"),
        ("rouge", "rouge"),
    ];
    kinds.map(|(name, kind)| stage(root, name, kind, kind != "rouge")).into()
}

fn report(root: &Path) -> Report {
    collect("quickstart", &pipeline(root)).unwrap()
}

#[test]
fn text_for_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let text = report(dir.path()).text();
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn markdown() {
    let dir = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(report(dir.path()).markdown());
}

#[test]
fn json_keeps_every_summary() {
    let dir = tempfile::tempdir().unwrap();
    let results: serde_json::Value = serde_json::from_str(&report(dir.path()).json()).unwrap();
    insta::assert_json_snapshot!(results["headline"]);
    let stages = results["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 6);
    assert_eq!(stages[2]["summary"]["probe"]["passed"], true);
    assert_eq!(stages[4]["summary"]["win_rate"]["ppo"]["n"], 60);
}

#[test]
fn the_page_is_self_contained_and_no_answer_gets_out_of_its_box() {
    let dir = tempfile::tempdir().unwrap();
    let page = report(dir.path()).html();
    // `REPORT_PREVIEW=page.html cargo test -p report` keeps the page to look at.
    if let Some(path) = std::env::var_os("REPORT_PREVIEW") {
        std::fs::write(path, &page).unwrap();
    }
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&lt;img src=x onerror=&quot;"));
    for part in ["<script", "<img", "onerror=\"", "http://", "https://", "url(", "@import", "<link", "<i>"] {
        assert!(!page.contains(part), "{part}");
    }
    assert!(!page.contains(|c: char| c.is_control() && c != '\n'), "HTML forbids control characters");
    assert_eq!(page.matches("<style>").count(), 1);
    // Every element is closed, in order.
    balanced(&page);
}

/// Checks that tags nest; the texts in between are escaped, so every `<` starts a tag.
fn balanced(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let body = page.split_once("</style>").unwrap().1;
    for tag in body.split('<').skip(1).map(|rest| rest.split_once('>').unwrap().0) {
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap();
        if tag.starts_with('/') {
            let expected = if name == "head" || name == "html" { name } else { open.pop().unwrap() };
            assert_eq!(name, expected);
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[test]
fn only_the_usage_section_differs_between_runs() {
    let dir = tempfile::tempdir().unwrap();
    let mut stages = pipeline(dir.path());
    let write = |stages: &[Stage], name: &str| -> BTreeMap<String, String> {
        let out = dir.path().join(name);
        std::fs::create_dir(&out).unwrap();
        collect("quickstart", stages).unwrap().write(&out).unwrap();
        let files = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
        let text = |path: std::path::PathBuf| {
            let page = std::fs::read_to_string(&path).unwrap();
            let without = match page.split_once("<section id=\"usage\">") {
                Some((before, rest)) => before.to_string() + rest.split_once("</section>").unwrap().1,
                None => page,
            };
            (path.file_name().unwrap().to_string_lossy().into_owned(), without)
        };
        files.map(text).collect()
    };
    let first = write(&stages, "one");
    stages.iter_mut().for_each(|stage| stage.usage = Some(Usage { seconds: 9.0, peak_rss_bytes: 1 }));
    assert_eq!(first, write(&stages, "two"));
    assert_eq!(
        first.keys().collect::<Vec<_>>(),
        ["report.html", "results.json", "results.md", "results.txt"]
    );
}

#[test]
fn usage_for_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    insta::assert_snapshot!(report::usage_text(&pipeline(dir.path())));
}

#[test]
fn damage_names_stage_and_file() {
    let dir = tempfile::tempdir().unwrap();
    let stages = pipeline(dir.path());
    std::fs::write(dir.path().join("judge/summary.json"), "{\"models\": []}").unwrap();
    let error = collect("x", &stages).unwrap_err();
    assert!(matches!(&error, ReportError::Malformed { stage, .. } if stage == "judge"), "{error}");
    std::fs::write(dir.path().join("ppo/metrics.jsonl"), "{\"step\": 1}\n{\"kl\": 1}\n").unwrap();
    let error = collect("x", &stages[2..3]).unwrap_err();
    assert_eq!(error.code(), "E0802");
    assert!(error.to_string().contains("line 2: no `step`"), "{error}");
    std::fs::remove_file(dir.path().join("answers/answers.jsonl")).unwrap();
    let error = collect("x", &stages[3..4]).unwrap_err();
    assert!(error.to_string().starts_with("stage `answers`: "), "{error}");
}

#[test]
fn a_judge_without_coverage_shows_no_number() {
    let dir = tempfile::tempdir().unwrap();
    let rows = rows();
    let models = ["sft".to_string(), "ppo".to_string()];
    let tournament = Tournament::new(&rows, &models, &[Order::Ab, Order::Ba]).unwrap();
    summary(&dir.path().join("judge"), &tournament.summarise(&[], "openai", "gpt-4", 0.9, 1).unwrap());
    judgement::write(&dir.path().join("judge/judgements.jsonl"), &[]).unwrap();
    let report = collect("x", &[stage(dir.path(), "judge", "judge", false)]).unwrap();
    let text = report.text();
    assert!(text.contains("No win rate: only 0.0 % of comparisons are valid"), "{text}");
    assert!(!report.html().contains("50.0 %"));
}
