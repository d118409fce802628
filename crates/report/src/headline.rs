//! The few numbers that a reader looks for first.

use eval::Interval;
use eval::summary::JudgeSummary;
use serde::Serialize;
use serde_json::Value;

use crate::collect::{Collected, Report, Results};
use crate::format::{NONE, ends, number, percent, share};

/// One of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Headline {
    pub label: String,
    pub value: String,
    /// Interval, number of prompts, judge: what qualifies the value.
    pub detail: String,
}

impl Report {
    /// Win rates of each later model against the first, correctness by rule, reward and KL of PPO, ROUGE,
    /// reward-model accuracy: those of them that the stages have.
    pub(crate) fn headlines(&self) -> Vec<Headline> {
        let of = |wanted: fn(&Collected) -> Vec<Headline>| self.stages.iter().flat_map(wanted);
        of(win_rates)
            .chain(of(correct))
            .chain(of(training))
            .chain(of(rouge))
            .chain(of(reward_accuracy))
            .collect()
    }
}

/// The same comparison from the other model's side.
pub(crate) fn reversed(rate: &Interval) -> Interval {
    Interval { mean: 100.0 - rate.mean, low: 100.0 - rate.high, high: 100.0 - rate.low, n: rate.n }
}

fn win_rates(collected: &Collected) -> Vec<Headline> {
    let Results::Judge(summary, _) = &collected.results else { return Vec::new() };
    let Some(first) = summary.models.first() else { return Vec::new() };
    summary
        .pairs
        .iter()
        .filter(|pair| pair.model_a == *first)
        .map(|pair| {
            let label = format!("Win rate of {} against {first}", pair.model_b);
            match pair.win_rate.as_ref().map(reversed) {
                Some(rate) => Headline {
                    label,
                    value: percent(rate.mean),
                    detail: format!(
                        "95 %: {}; {} prompts; judge {}",
                        ends(&rate, 1.0),
                        rate.n,
                        summary.judge
                    ),
                },
                None => Headline { label, value: NONE.into(), detail: too_few(summary) },
            }
        })
        .collect()
}

fn too_few(summary: &JudgeSummary) -> String {
    format!("only {} of comparisons are valid", share(summary.coverage))
}

fn correct(collected: &Collected) -> Vec<Headline> {
    let Results::Generate(summary, _) = &collected.results else { return Vec::new() };
    let headline = |model: &String| {
        let correct = summary.models.get(model)?.correct_share?;
        Some(Headline {
            label: format!("Correct by rule, {model}"),
            value: share(correct.mean),
            detail: format!("95 %: {}; {} prompts", ends(&correct, 100.0), correct.n),
        })
    };
    collected.models.iter().filter_map(headline).collect()
}

/// Reward and KL of a `ppo` stage: from its summary, else the ends of its curves.
fn training(collected: &Collected) -> Vec<Headline> {
    if collected.stage.kind != "ppo" {
        return Vec::new();
    }
    let name = &collected.stage.name;
    let from_summary = |key: String| collected.summary.get(key).and_then(Value::as_f64);
    let curve = |metric: &str| collected.curves.get(metric).filter(|curve| !curve.is_empty());
    let first =
        |metric: &str| from_summary(format!("{metric}_first")).or_else(|| Some(curve(metric)?.first()?.1));
    let last = |metric: &str| {
        from_summary(format!("{metric}_last"))
            .or_else(|| from_summary(metric.into()))
            .or_else(|| Some(curve(metric)?.last()?.1))
    };
    let mut headlines = Vec::new();
    if let Some(reward) = last("reward") {
        let detail = first("reward").map_or(String::new(), |first| format!("from {}", number(first)));
        headlines.push(Headline { label: format!("Reward, {name}"), value: number(reward), detail });
    }
    if let Some(kl) = last("kl") {
        let detail = "nats per answer, to the reference".into();
        headlines.push(Headline { label: format!("KL, {name}"), value: number(kl), detail });
    }
    headlines
}

fn rouge(collected: &Collected) -> Vec<Headline> {
    let Results::Rouge(summary) = &collected.results else { return Vec::new() };
    let headline = |model: &String| {
        Some(Headline {
            label: format!("ROUGE-L, {model}"),
            value: format!("{:.3}", summary.models.get(model)?.rouge_l.f),
            detail: format!("F1 over {} references", summary.n),
        })
    };
    collected.models.iter().filter_map(headline).collect()
}

fn reward_accuracy(collected: &Collected) -> Vec<Headline> {
    let Results::RewardEval(s) = &collected.results else { return Vec::new() };
    let detail = format!("95 %: {:.1}–{:.1}; {} pairs", 100.0 * s.accuracy_low, 100.0 * s.accuracy_high, s.n);
    let label = format!("Reward accuracy, {}", collected.stage.name);
    vec![Headline { label, value: share(s.accuracy), detail }]
}
