//! Answers side by side, with what the rule and the judge say of them.

use std::collections::HashMap;

use eval::answers::{Answer, AnswerRow};
use eval::judgement::Judgement;
use eval::{Order, Verdict};

use super::escape;
use crate::collect::{Collected, Results};
use crate::format::number;

/// Prompts shown: the first ones, so that nobody chose them.
const SHOWN: usize = 12;

/// All judgements by prompt id.
type Verdicts<'a> = HashMap<&'a str, Vec<&'a Judgement>>;

/// Samples of every `generate` stage.
pub(super) fn samples(stages: &[Collected]) -> String {
    let mut verdicts = Verdicts::new();
    for collected in stages {
        if let Results::Judge(_, judgements) = &collected.results {
            judgements.iter().for_each(|j| verdicts.entry(j.id.as_str()).or_default().push(j));
        }
    }
    stages
        .iter()
        .filter_map(|collected| match &collected.results {
            Results::Generate(_, rows) if !rows.is_empty() => Some((rows, &collected.models)),
            _ => None,
        })
        .map(|(rows, models)| {
            let shown = rows.len().min(SHOWN);
            let samples: String = rows[..shown].iter().map(|row| sample(row, models, &verdicts)).collect();
            format!("<p>The first {shown} of {} prompts.</p>\n{samples}", rows.len())
        })
        .collect()
}

fn sample(row: &AnswerRow, models: &[String], verdicts: &Verdicts) -> String {
    let answers = models.iter().filter_map(|model| row.answers.get_key_value(model));
    let answers: String = answers.map(|(model, answer)| card(model, answer)).collect();
    let judged = verdicts.get(row.id.as_str());
    let judged: String = judged.into_iter().flatten().filter(|j| names(row, j)).map(|j| verdict(j)).collect();
    let judged = if judged.is_empty() { judged } else { format!("<ul class=\"verdicts\">{judged}</ul>\n") };
    let reference = row.reference.as_ref().map_or(String::new(), |text| {
        format!("<details><summary>Reference</summary>{}</details>\n", block(text))
    });
    format!(
        "<article>\n<h3>Prompt <code>{}</code></h3>\n{}<div class=\"answers\">\n{answers}</div>\n\
         {judged}{reference}</article>\n",
        escape(&row.id),
        block(&row.prompt)
    )
}

fn names(row: &AnswerRow, judgement: &Judgement) -> bool {
    row.answers.contains_key(&judgement.model_a) && row.answers.contains_key(&judgement.model_b)
}

fn card(model: &str, answer: &Answer) -> String {
    let mut badges = match answer.correct {
        Some(true) => "<span class=\"good\">✓ correct</span>".to_string(),
        Some(false) => "<span class=\"bad\">✗ not correct</span>".to_string(),
        None => String::new(),
    };
    if !answer.finished {
        badges += "<span class=\"bad\">cut off</span>";
    }
    let (model, tokens) = (escape(model), answer.tokens);
    format!("<div><h4>{model} <span>{tokens} tokens</span>{badges}</h4>{}</div>\n", block(&answer.text))
}

/// One verdict in words.
fn verdict(judgement: &Judgement) -> String {
    let (a, b) = (&judgement.model_a, &judgement.model_b);
    let said = match judgement.valid() {
        Some(Verdict::A) => format!("{a} over {b}"),
        Some(Verdict::B) => format!("{b} over {a}"),
        Some(Verdict::Tie) => format!("{a} and {b} equal"),
        None => format!("{a} and {b}: {}", judgement.state.name()),
    };
    let how = match (judgement.score_a, judgement.score_b) {
        (Some(score_a), Some(score_b)) => format!("rewards {} and {}", number(score_a), number(score_b)),
        _ => {
            let first = if judgement.order == Order::Ab { a } else { b };
            format!("{first} shown first")
        }
    };
    format!("<li>Judge: {} <span>({})</span></li>", escape(&said), escape(&how))
}

/// Text as it is, line breaks and spaces kept; its direction its own.
fn block(text: &str) -> String {
    format!("<div class=\"text\" dir=\"auto\">{}</div>\n", escape(text))
}
