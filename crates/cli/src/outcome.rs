//! What a run has made: a table of its stages, then what its `report` stage says.

use std::path::{Path, PathBuf};

use engine::{RunOutcome, StageOutcome};
use plan::Plan;
use serde_json::Value;
use store::Store;
use store::record::Artifact;

use crate::failure::Failure;
use crate::format;
use crate::printer::Printer;

/// Prints the table of stages and the report.
pub async fn print(
    outcome: &RunOutcome,
    plan: &Plan,
    store: &Store,
    printer: &Printer,
) -> Result<(), Failure> {
    let artifacts = artifacts(plan, store).await?;
    let of = |name: &str| artifacts.iter().find(|(stage, _)| stage == name).map(|(_, artifact)| artifact);
    let rows = outcome.stages.iter().map(|stage| row(stage, of(&stage.stage), printer));
    printer.line("");
    printer.table(&["stage", "state", "time", "memory", "result"], &[2, 3], rows.collect());
    let done = |name: &str| outcome.stages.iter().any(|stage| stage.stage == name && stage.state.is_done());
    for (_, artifact) in artifacts.iter().filter(|(name, artifact)| artifact.kind == "report" && done(name)) {
        report(&store.layout().resolve(&artifact.path), printer);
    }
    Ok(())
}

/// The pages of finished `report` stages.
pub async fn pages(plan: &Plan, store: &Store) -> Result<Vec<PathBuf>, Failure> {
    let artifacts = artifacts(plan, store).await?;
    let reports = artifacts.into_iter().filter(|(_, artifact)| artifact.kind == "report");
    Ok(reports.map(|(_, artifact)| shown(&store.layout().resolve(&artifact.path).join(PAGE))).collect())
}

const PAGE: &str = "report.html";

/// Finished stages of the plan with their results.
async fn artifacts(plan: &Plan, store: &Store) -> Result<Vec<(String, Artifact)>, Failure> {
    let fingerprints: Vec<_> = plan.stages.iter().map(|stage| stage.fingerprint.as_str()).collect();
    let found = store.artifacts(&fingerprints).await?;
    let of = |fingerprint: &str| found.iter().find(|artifact| artifact.fingerprint == fingerprint).cloned();
    let stages =
        plan.stages.iter().filter_map(|stage| Some((stage.name.clone(), of(stage.fingerprint.as_str())?)));
    Ok(stages.collect())
}

fn row(stage: &StageOutcome, artifact: Option<&Artifact>, printer: &Printer) -> Vec<String> {
    let state = printer.state(stage.state.as_str());
    let done = artifact.filter(|_| stage.state.is_done());
    let time = done.map(|artifact| format::seconds(artifact.seconds)).unwrap_or_default();
    let memory =
        done.map(|artifact| format::bytes(artifact.peak_rss_bytes.max(0) as u64)).unwrap_or_default();
    let result = match (done, &stage.failure) {
        (Some(artifact), _) => {
            headline(&stage.kind, &serde_json::from_str(&artifact.summary).unwrap_or_default())
        }
        (None, Some(failure)) => crate::progress::told(failure),
        (None, None) => String::new(),
    };
    vec![stage.stage.clone(), state, time, memory, result]
}

/// What a report begins with, its title and the numbers that people look for first, and where the rest is.
fn report(folder: &Path, printer: &Printer) {
    if let Ok(text) = std::fs::read_to_string(folder.join("results.txt")) {
        for paragraph in text.split("\n\n").take(2) {
            printer.line(format_args!("\n{}", paragraph.trim_end()));
        }
    }
    printer.line(format_args!("\nreport: {}", shown(&folder.join(PAGE)).display()));
}

/// Relative to the current directory where it lies below.
fn shown(path: &Path) -> PathBuf {
    let below = std::env::current_dir().ok().and_then(|cwd| path.strip_prefix(cwd).ok().map(Path::to_owned));
    below.unwrap_or_else(|| path.to_owned())
}

/// The one number of a stage that people look for; empty when its summary does not have it.
fn headline(kind: &str, summary: &Value) -> String {
    let at = |pointer: &str| summary.pointer(pointer).and_then(Value::as_f64);
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let models = |what: &dyn Fn(&str) -> Option<String>| {
        let names =
            summary.get("models").and_then(Value::as_object).into_iter().flat_map(|models| models.keys());
        names.filter_map(|name| Some(format!("{name} {}", what(name)?))).collect::<Vec<_>>().join(", ")
    };
    let words = match kind {
        "reward-eval" => at("/accuracy").map(|accuracy| format!("accuracy {}", percent(accuracy))),
        "generate" => {
            let correct = models(&|name| at(&format!("/models/{name}/correct_share/mean")).map(percent));
            (!correct.is_empty()).then(|| format!("correct: {correct}"))
        }
        "rouge" => {
            let scores = models(&|name| at(&format!("/models/{name}/rouge_l/f")).map(|f| format!("{f:.3}")));
            (!scores.is_empty()).then(|| format!("ROUGE-L: {scores}"))
        }
        "judge" => judged(summary),
        "ppo" => at("/reward_last").map(|last| {
            let first = at("/reward_first").map(|first| format!("{} → ", format::number(first)));
            let kl = at("/kl_last").map(|kl| format!(", KL {}", format::number(kl)));
            format!("reward {}{}{}", first.unwrap_or_default(), format::number(last), kl.unwrap_or_default())
        }),
        "prepare" => at("/pairs_kept").map(|pairs| format!("{pairs} pairs")),
        "pretrain" | "sft" | "reward" | "hydra-sft" => trained(summary),
        _ => None,
    };
    words.unwrap_or_default()
}

/// Win rate of the last model against the first.
fn judged(summary: &Value) -> Option<String> {
    let model = summary.get("models")?.as_array()?.last()?.as_str()?;
    let rate = summary.get("win_rate")?.get(model)?;
    let number = |key: &str| rate.get(key).and_then(Value::as_f64);
    Some(format!("{model} wins {:.1} % ({:.1}–{:.1})", number("mean")?, number("low")?, number("high")?))
}

/// How a trained model does on held-out data.
fn trained(summary: &Value) -> Option<String> {
    let at = |pointer: &str| summary.pointer(pointer).and_then(Value::as_f64);
    let perplexity =
        at("/held_out/perplexity_after").map(|value| format!("perplexity {}", format::number(value)));
    let accuracy = at("/held_out_accuracy").map(|share| format!("reward accuracy {:.1} %", 100.0 * share));
    let parts: Vec<_> = [perplexity, accuracy].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn headlines() {
        let judge = json!({ "models": ["sft", "ppo"], "win_rate": { "ppo": { "mean": 62.11, "low": 55.0, "high": 69.0 } } });
        assert_eq!(headline("judge", &judge), "ppo wins 62.1 % (55.0–69.0)");
        assert_eq!(headline("reward-eval", &json!({ "accuracy": 0.781 })), "accuracy 78.1 %");
        let answers = json!({ "models": { "ppo": { "correct_share": { "mean": 0.5 } }, "sft": { "correct_share": null } } });
        assert_eq!(headline("generate", &answers), "correct: ppo 50.0 %");
        let ppo = json!({ "reward_first": -0.5, "reward_last": 1.25, "kl_last": 3.0 });
        assert_eq!(headline("ppo", &ppo), "reward -0.5 → 1.25, KL 3");
        let sft = json!({ "held_out": { "perplexity_after": 4.25 }, "held_out_accuracy": 0.8 });
        assert_eq!(headline("hydra-sft", &sft), "perplexity 4.25, reward accuracy 80.0 %");
        assert_eq!(headline("sft", &json!({})), "");
    }
}
