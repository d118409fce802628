//! The report's tables, from the typed summaries.

use eval::summary::{GenerateSummary, JudgeSummary, RewardEvalSummary, RougeSummary};
use serde_json::Value;

use crate::collect::{Collected, Report, Results, Stage};
use crate::format::{NONE, bytes, duration, ends, number, percent, share};
use crate::table::Table;

/// Numbers shown of one stage's summary.
const MAX_NUMBERS: usize = 30;

impl Report {
    /// Every table except [`usage`]: results first, then what training and data left, in stage order.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let of = |wanted: fn(&Collected) -> Vec<Table>| self.stages.iter().flat_map(wanted);
        of(judged).chain(of(answers)).chain(of(rouge)).chain(of(reward)).chain(of(numbers)).collect()
    }
}

fn titled(what: &str, stage: &Stage) -> String {
    format!("{what} ({})", stage.name)
}

fn judged(collected: &Collected) -> Vec<Table> {
    let Results::Judge(summary, _) = &collected.results else { return Vec::new() };
    let mut rates =
        Table::new(titled("Judged win rate", &collected.stage), &["model", "win rate", "95 %", "prompts"]);
    for model in &summary.models {
        let rate = summary.win_rate.as_ref().and_then(|rates| rates.get(model));
        rates.rows.push(vec![
            model.clone(),
            rate.map_or(NONE.into(), |r| percent(r.mean)),
            rate.map_or(NONE.into(), |r| ends(r, 1.0)),
            rate.map_or(NONE.into(), |r| r.n.to_string()),
        ]);
    }
    rates.note = judge_note(summary);
    let mut pairs = Table::new(
        titled("Pairs", &collected.stage),
        &["pair", "win rate", "95 %", "won", "tied", "lost", "invalid"],
    );
    for pair in &summary.pairs {
        // The later model is the one that was trained further: its wins are the news.
        let rate = pair.win_rate.as_ref().map(crate::headline::reversed);
        pairs.rows.push(vec![
            format!("{} vs {}", pair.model_b, pair.model_a),
            rate.map_or(NONE.into(), |r| percent(r.mean)),
            rate.map_or(NONE.into(), |r| ends(&r, 1.0)),
            pair.losses.to_string(),
            pair.ties.to_string(),
            pair.wins.to_string(),
            pair.invalid.to_string(),
        ]);
    }
    vec![rates, pairs]
}

fn judge_note(summary: &JudgeSummary) -> String {
    let mut note = format!("Judge: {} ({}).", summary.judge, summary.provider);
    if summary.win_rate.is_none() {
        let (have, need) = (share(summary.coverage), share(summary.min_coverage));
        note += &format!(" No win rate: only {have} of comparisons are valid, {need} are needed.");
    } else if summary.coverage < 1.0 {
        note += &format!(" {} of comparisons are valid.", share(summary.coverage));
    }
    let failed = summary.states.iter().filter(|(name, count)| *name != "ok" && **count > 0);
    let failed: Vec<String> = failed.map(|(name, count)| format!("{count} {name}")).collect();
    if !failed.is_empty() {
        note += &format!(" Judgements without verdict: {}.", failed.join(", "));
    }
    if let Some(agreement) = summary.agreement_between_orders {
        note += &format!(" Both orders agree on {}.", share(agreement));
    }
    if let Some(first) = summary.first_shown_share {
        note += &format!(" The answer shown first got {} of the decided verdicts.", share(first));
    }
    note
}

fn answers(collected: &Collected) -> Vec<Table> {
    let Results::Generate(GenerateSummary { n, models }, _) = &collected.results else { return Vec::new() };
    let columns = ["model", "correct by rule", "95 %", "mean tokens", "ended itself", "empty"];
    let mut table = Table::new(titled("Answers", &collected.stage), &columns);
    for (model, stats) in collected.models.iter().filter_map(|model| models.get_key_value(model)) {
        table.rows.push(vec![
            model.clone(),
            stats.correct_share.map_or(NONE.into(), |c| share(c.mean)),
            stats.correct_share.map_or(NONE.into(), |c| ends(&c, 100.0)),
            number(stats.mean_tokens),
            share(stats.finished_share),
            share(stats.empty_share),
        ]);
    }
    table.note = format!("{n} prompts.");
    vec![table]
}

fn rouge(collected: &Collected) -> Vec<Table> {
    let Results::Rouge(summary) = &collected.results else { return Vec::new() };
    let columns = ["model", "ROUGE-1", "ROUGE-2", "ROUGE-L", "ROUGE-Lsum"];
    let mut table = Table::new(titled("ROUGE, F1", &collected.stage), &columns);
    for (model, means) in collected.models.iter().filter_map(|model| summary.models.get_key_value(model)) {
        let scores = [means.rouge1, means.rouge2, means.rouge_l, means.rouge_lsum];
        let scores = scores.map(|score| format!("{:.4}", score.f));
        table.rows.push(std::iter::once(model.clone()).chain(scores).collect());
    }
    table.note = rouge_note(summary);
    vec![table]
}

fn rouge_note(summary: &RougeSummary) -> String {
    let stemmed = if summary.use_stemmer { "stemmed" } else { "not stemmed" };
    let mut note = format!("{} prompts with a reference, {stemmed}.", summary.n);
    if summary.without_reference > 0 {
        note += &format!(" {} without one are left out.", summary.without_reference);
    }
    if summary.tokenless_share > 0.0 {
        let share = share(summary.tokenless_share);
        note += &format!(" {share} of the texts have no word in a–z 0–9, all that ROUGE sees: they score 0.");
    }
    note
}

fn reward(collected: &Collected) -> Vec<Table> {
    let Results::RewardEval(s) = &collected.results else { return Vec::new() };
    let RewardEvalSummary { n, accuracy, accuracy_low, accuracy_high, min_accuracy, .. } = s;
    let mut table = Table::new(titled("Reward model", &collected.stage), &["on held-out pairs", "value"]);
    let ends = format!("{:.1}–{:.1}", 100.0 * accuracy_low, 100.0 * accuracy_high);
    let gate = if s.passed { "passed" } else { "not passed" };
    for (name, value) in [
        ("accuracy", share(*accuracy)),
        ("accuracy, 95 %", ends),
        ("gate", format!("{} ({gate})", share(*min_accuracy))),
        ("pairs", n.to_string()),
        ("equal scores", s.ties.to_string()),
        ("margin, mean ± deviation", spread(s.margin, s.margin_std)),
        ("score of chosen", spread(s.chosen_mean, s.chosen_std)),
        ("score of rejected", spread(s.rejected_mean, s.rejected_std)),
    ] {
        table.rows.push(vec![name.into(), value]);
    }
    vec![table]
}

fn spread(mean: f64, deviation: f64) -> String {
    format!("{} ± {}", number(mean), number(deviation))
}

/// Trainers' and data's summaries: every number, nested names joined by dots.
fn numbers(collected: &Collected) -> Vec<Table> {
    if !matches!(collected.results, Results::Other) {
        return Vec::new();
    }
    let mut rows = Vec::new();
    flatten("", &collected.summary, &mut rows);
    if rows.is_empty() {
        return Vec::new();
    }
    let Stage { name, kind, .. } = &collected.stage;
    let title = if name == kind { name.clone() } else { format!("{name} ({kind})") };
    let mut table = Table::new(title, &["number", "value"]);
    if rows.len() > MAX_NUMBERS {
        table.note = format!("{} more in results.json.", rows.len() - MAX_NUMBERS);
        rows.truncate(MAX_NUMBERS);
    }
    table.rows = rows;
    vec![table]
}

fn flatten(prefix: &str, value: &Value, rows: &mut Vec<Vec<String>>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(&name, value, rows);
            }
        }
        Value::Number(value) if !prefix.is_empty() => {
            rows.push(vec![prefix.into(), value.as_f64().map_or(value.to_string(), number)]);
        }
        Value::Bool(value) if !prefix.is_empty() => rows.push(vec![prefix.into(), value.to_string()]),
        _ => {}
    }
}

/// Time and peak memory per stage; the only table that differs between runs of the same pipeline.
pub(crate) fn usage<'a>(stages: impl Iterator<Item = &'a Stage>) -> Table {
    let mut table = Table::new("Time and memory", &["stage", "kind", "time", "peak memory"]);
    table.names = 2;
    let (mut seconds, mut peak) = (0.0, 0);
    for stage in stages {
        if let Some(usage) = stage.usage {
            seconds += usage.seconds;
            peak = peak.max(usage.peak_rss_bytes);
        }
        table.rows.push(vec![
            stage.name.clone(),
            stage.kind.clone(),
            stage.usage.map_or(NONE.into(), |u| duration(u.seconds)),
            stage.usage.map_or(NONE.into(), |u| bytes(u.peak_rss_bytes)),
        ]);
    }
    table.rows.push(vec!["sum, highest".into(), String::new(), duration(seconds), bytes(peak)]);
    table
}

/// The table of time and peak memory for the terminal.
pub fn usage_text(stages: &[Stage]) -> String {
    usage(stages.iter()).text()
}
