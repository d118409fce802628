//! Win rates: by hand, against invariants, and against a published leaderboard.

use std::io::Read;

use eval::answers::{Answer, AnswerRow};
use eval::{EvalError, Judgement, Order, State, Tournament, Verdict};
use proptest::prelude::*;

const BOTH: [Order; 2] = [Order::Ab, Order::Ba];

fn rows(ids: &[&str], models: &[&str]) -> Vec<AnswerRow> {
    let answer = Answer { text: "x".into(), tokens: 1, finished: true, correct: None };
    let row = |id: &&str| AnswerRow {
        id: id.to_string(),
        prompt: "q".into(),
        reference: None,
        answers: models.iter().map(|model| (model.to_string(), answer.clone())).collect(),
    };
    ids.iter().map(row).collect()
}

fn tournament(ids: &[&str], models: &[&str], orders: &[Order]) -> Tournament {
    let names: Vec<String> = models.iter().map(|model| model.to_string()).collect();
    Tournament::new(&rows(ids, models), &names, orders).unwrap()
}

fn judgement(id: &str, a: &str, b: &str, order: Order, verdict: Option<Verdict>) -> Judgement {
    Judgement {
        id: id.into(),
        model_a: a.into(),
        model_b: b.into(),
        order,
        state: if verdict.is_some() { State::Ok } else { State::Error },
        verdict,
        score_a: None,
        score_b: None,
        reason: None,
        request: String::new(),
        prompt_tokens: 0,
        completion_tokens: 0,
    }
}

#[test]
fn both_orders_ties_and_disagreement() {
    let t = tournament(&["1", "2", "3", "4"], &["sft", "ppo"], &BOTH);
    let judge = |id, ab, ba| {
        [(Order::Ab, ab), (Order::Ba, ba)].map(|(order, v)| judgement(id, "sft", "ppo", order, Some(v)))
    };
    let judgements = [
        judge("1", Verdict::B, Verdict::B),     // 0 for sft
        judge("2", Verdict::A, Verdict::B),     // disagreement: ½
        judge("3", Verdict::Tie, Verdict::Tie), // ½
        judge("4", Verdict::B, Verdict::Tie),   // disagreement: ½
    ]
    .concat();
    let s = t.summarise(&judgements, "openai", "fake", 0.9, 1).unwrap();
    let rates = s.win_rate.clone().unwrap();
    assert_eq!((rates["sft"].mean, rates["ppo"].mean, rates["sft"].n), (37.5, 62.5, 4));
    assert!(rates["sft"].low <= 37.5 && rates["sft"].high >= 37.5);
    let pair = &s.pairs[0];
    assert_eq!((pair.wins, pair.ties, pair.losses, pair.invalid), (0, 3, 1, 0));
    assert_eq!(s.agreement_between_orders, Some(0.5));
    // Shown first: 1ab B no, 1ba B yes, 2ab A yes, 2ba B yes, 4ab B no.
    assert_eq!(s.first_shown_share, Some(0.6));
    assert_eq!((s.coverage, s.states["ok"], s.states["missing"]), (1.0, 8, 0));
    s.require_coverage().unwrap();
}

#[test]
fn a103_a112_failures_are_counted_and_are_no_ties() {
    let ids = ["1", "2", "3", "4", "5", "6"];
    let t = tournament(&ids, &["sft", "ppo"], &BOTH);
    let mut judgements = Vec::new();
    for (index, id) in ids.iter().enumerate() {
        judgements.push(judgement(id, "sft", "ppo", Order::Ab, Some(Verdict::B)));
        let second = (index % 3 > 0).then_some(Verdict::B);
        judgements.push(judgement(id, "sft", "ppo", Order::Ba, second));
    }
    judgements.pop();
    let s = t.summarise(&judgements, "openai", "fake", 0.9, 1).unwrap();
    assert_eq!(s.win_rate, None, "3 of 6 comparisons are below 90 %");
    assert_eq!((s.coverage, s.states["error"], s.states["missing"], s.states["ok"]), (0.5, 2, 1, 9));
    let error = s.require_coverage().unwrap_err();
    assert_eq!(error.code(), "E0706");
    assert!(error.to_string().contains("2 error, 1 missing, 9 ok"), "{error}");
    // With a lower threshold only the valid ones count, and they are unanimous.
    let s = t.summarise(&judgements, "openai", "fake", 0.5, 1).unwrap();
    assert_eq!(s.win_rate.unwrap()["ppo"].mean, 100.0);
    assert_eq!((s.pairs[0].losses, s.pairs[0].ties, s.pairs[0].invalid), (3, 0, 3));
}

#[test]
fn a113_a_judge_that_is_down_gives_no_number_at_any_threshold() {
    let t = tournament(&["1", "2"], &["sft", "ppo"], &BOTH);
    let judgements: Vec<Judgement> =
        t.keys().iter().map(|k| judgement(&k.id, &k.model_a, &k.model_b, k.order, None)).collect();
    let s = t.summarise(&judgements, "openai", "fake", 0.0, 1).unwrap();
    assert_eq!(s.win_rate, None);
    assert!(s.require_coverage().is_err());
}

#[test]
fn a116_unknown_ids_and_missing_answers_are_listed() {
    let t = tournament(&["1"], &["sft", "ppo"], &[Order::Ab]);
    let stray = judgement("q9", "sft", "ppo", Order::Ab, Some(Verdict::A));
    let error = t.summarise(&[stray], "reward-model", "rm", 0.9, 1).unwrap_err();
    assert!(error.to_string().contains("unexpected `q9`"), "{error}");
    let mut some = rows(&["1", "2"], &["sft", "ppo"]);
    some[1].answers.remove("ppo");
    let names = ["sft".to_string(), "ppo".to_string()];
    let error = Tournament::new(&some, &names, &BOTH).unwrap_err();
    assert!(error.to_string().contains("missing `2`"), "{error}");
    assert!(matches!(Tournament::new(&some, &names[..1], &BOTH), Err(EvalError::NothingToCompare { .. })));
}

#[test]
fn a109_the_same_judgement_twice_is_an_error() {
    let t = tournament(&["1"], &["sft", "ppo"], &[Order::Ab]);
    let one = judgement("1", "sft", "ppo", Order::Ab, Some(Verdict::A));
    let error = t.summarise(&[one.clone(), one], "reward-model", "rm", 0.9, 1).unwrap_err();
    assert_eq!(error.code(), "E0704");
}

fn verdict() -> impl Strategy<Value = Option<Verdict>> {
    prop_oneof![
        3 => Just(Some(Verdict::A)),
        3 => Just(Some(Verdict::B)),
        2 => Just(Some(Verdict::Tie)),
        1 => Just(None),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is judged, and however little of it, the mean over models is 50.
    #[test]
    fn mean_over_models_is_50(verdicts in proptest::collection::vec(verdict(), 4 * 6 * 2)) {
        let t = tournament(&["1", "2", "3", "4"], &["a", "b", "c", "d"], &BOTH);
        let judgements: Vec<Judgement> = t
            .keys()
            .iter()
            .zip(&verdicts)
            .map(|(k, v)| judgement(&k.id, &k.model_a, &k.model_b, k.order, *v))
            .collect();
        let s = t.summarise(&judgements, "openai", "fake", 0.0, 1).unwrap();
        if let Some(rates) = s.win_rate {
            let mean = rates.values().map(|rate| rate.mean).sum::<f64>() / rates.len() as f64;
            prop_assert!((mean - 50.0).abs() < 1e-9, "{mean}");
            for rate in rates.values() {
                prop_assert!(rate.low <= rate.high && rate.low >= 0.0 && rate.high <= 100.0);
            }
        }
        // Order of arrival does not matter.
        let reversed: Vec<Judgement> = judgements.into_iter().rev().collect();
        let again = t.summarise(&reversed, "openai", "fake", 0.0, 1).unwrap();
        prop_assert_eq!(s.pairs, again.pairs);
    }
}

/// AlpacaEval's preferences, 1 for the reference and 2 for the model, as verdicts.
#[test]
fn discrete_win_rates_equal_the_published_leaderboard() {
    let Some(dir) = testkit::shared_data("judge/alpaca_eval") else { return };
    let board = std::fs::read_to_string(dir.join("leaderboard.csv")).unwrap();
    for line in board.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let (model, draws, total) = (fields[0], fields[5], fields[6]);
        let file = std::fs::File::open(dir.join(format!("{model}.jsonl.gz"))).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
        let preferences: Vec<f64> = text
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["preference"].as_f64().unwrap()
            })
            .collect();
        let ids: Vec<String> = (0..preferences.len()).map(|index| index.to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let t = tournament(&ids, &["reference", model], &[Order::Ab]);
        let verdict = |preference: f64| match preference {
            1.5 => Verdict::Tie,
            p if p > 1.5 => Verdict::B,
            _ => Verdict::A,
        };
        let judgements: Vec<Judgement> = ids
            .iter()
            .zip(&preferences)
            .map(|(id, &p)| judgement(id, "reference", model, Order::Ab, Some(verdict(p))))
            .collect();
        let s = t.summarise(&judgements, "openai", "gpt-4", 1.0, 1).unwrap();
        let published: f64 = fields[7].parse().unwrap();
        let ours = s.win_rate.unwrap()[model];
        assert!((ours.mean - published).abs() < 1e-9, "{model}: {} against {published}", ours.mean);
        assert_eq!((s.pairs[0].ties.to_string(), ours.n.to_string()), (draws.into(), total.into()));
    }
}
