//! Reads what the stages left behind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use eval::answers::AnswerRow;
use eval::judgement::Judgement;
use eval::summary::{GenerateSummary, JudgeSummary, RewardEvalSummary, RougeSummary};
use serde_json::Value;

use crate::error::ReportError;

/// A finished stage to report on.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    pub name: String,
    /// The `kind` of the pipeline file, such as `ppo`.
    pub kind: String,
    /// Its artifact folder.
    pub dir: PathBuf,
    /// What it took, if known. Shown in a part of its own: nothing else depends on it.
    pub usage: Option<Usage>,
}

/// What a stage took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    pub seconds: f64,
    /// Largest resident set over its processes.
    pub peak_rss_bytes: u64,
}

/// Everything that was read, in the order of the stages.
#[derive(Debug, Clone)]
pub struct Report {
    pub(crate) title: String,
    pub(crate) stages: Vec<Collected>,
}

/// One stage with its results.
#[derive(Debug, Clone)]
pub(crate) struct Collected {
    pub stage: Stage,
    /// `summary.json`; `null` if the stage wrote none.
    pub summary: Value,
    pub results: Results,
    /// The models that answered, as the pipeline orders them: what was trained later comes later.
    pub models: Vec<String>,
    /// Metric name to `(step, value)`, from `metrics.jsonl`.
    pub curves: BTreeMap<String, Vec<(f64, f64)>>,
}

/// What the summary of an evaluation stage means.
#[derive(Debug, Clone)]
pub(crate) enum Results {
    Generate(GenerateSummary, Vec<AnswerRow>),
    Judge(JudgeSummary, Vec<Judgement>),
    RewardEval(RewardEvalSummary),
    Rouge(RougeSummary),
    /// Trainers and data: named numbers.
    Other,
}

/// Reads the artifacts of `stages`. A file that a stage kind must have written and that is missing or
/// malformed is an error that names stage and file.
pub fn collect(title: &str, stages: &[Stage]) -> Result<Report, ReportError> {
    let mut collected = stages.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let mut order: Vec<String> = Vec::new();
    for results in collected.iter().map(|one| &one.results) {
        if let Results::Judge(summary, _) = results {
            order.extend(summary.models.iter().cloned());
        }
    }
    order.extend(stages.iter().map(|stage| stage.name.clone()));
    for one in &mut collected {
        let place = |model: &String| order.iter().position(|name| name == model).unwrap_or(order.len());
        one.models.sort_by_key(place);
    }
    Ok(Report { title: title.into(), stages: collected })
}

fn read(stage: &Stage) -> Result<Collected, ReportError> {
    let path = stage.dir.join("summary.json");
    let malformed =
        |message: String| ReportError::Malformed { stage: stage.name.clone(), path: path.clone(), message };
    let summary: Value = match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|e| malformed(e.to_string()))?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Value::Null,
        Err(e) => return Err(ReportError::io(&path)(e)),
    };
    let eval = |source| ReportError::Eval { stage: stage.name.clone(), source };
    let mistyped = |e: serde_json::Error| malformed(e.to_string());
    let typed = summary.clone();
    let results = match stage.kind.as_str() {
        "generate" => Results::Generate(
            serde_json::from_value(typed).map_err(mistyped)?,
            eval::answers::read(&stage.dir.join("answers.jsonl")).map_err(eval)?,
        ),
        "judge" => Results::Judge(
            serde_json::from_value(typed).map_err(mistyped)?,
            eval::judgement::read(&stage.dir.join("judgements.jsonl")).map_err(eval)?,
        ),
        "reward-eval" => Results::RewardEval(serde_json::from_value(typed).map_err(mistyped)?),
        "rouge" => Results::Rouge(serde_json::from_value(typed).map_err(mistyped)?),
        _ => Results::Other,
    };
    let curves = curves(&stage.name, &stage.dir.join("metrics.jsonl"))?;
    let models = match &results {
        Results::Generate(summary, _) => summary.models.keys().cloned().collect(),
        Results::Judge(summary, _) => summary.models.clone(),
        Results::Rouge(summary) => summary.models.keys().cloned().collect(),
        Results::RewardEval(_) | Results::Other => Vec::new(),
    };
    Ok(Collected { stage: stage.clone(), summary, results, models, curves })
}

/// Reads `metrics.jsonl`: an object per line with `step` and numbers. A missing file has no curves.
fn curves(stage: &str, path: &Path) -> Result<BTreeMap<String, Vec<(f64, f64)>>, ReportError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(e) => return Err(ReportError::io(path)(e)),
    };
    let mut curves: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let malformed = |message: &str| ReportError::Malformed {
            stage: stage.into(),
            path: path.to_path_buf(),
            message: format!("line {}: {message}", index + 1),
        };
        let values: serde_json::Map<String, Value> =
            serde_json::from_str(line).map_err(|e| malformed(&e.to_string()))?;
        let step = values.get("step").and_then(Value::as_f64).ok_or_else(|| malformed("no `step`"))?;
        for (name, value) in values.iter().filter(|(name, _)| *name != "step") {
            if let Some(value) = value.as_f64() {
                curves.entry(name.clone()).or_default().push((step, value));
            }
        }
    }
    Ok(curves)
}
