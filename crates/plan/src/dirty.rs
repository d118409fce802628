//! Why did it run again? What of a plan is left to do, with a reason for every stage that will run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::parts::Parts;
use crate::planned::{Fingerprint, Plan, PlannedStage};

/// What is known about earlier runs.
pub trait Past {
    /// The result with exactly this fingerprint.
    fn artifact(&self, kind: &str, fingerprint: &Fingerprint) -> Artifact;

    /// Fingerprint parts of the last success of the stage, for comparison; `None` when it never succeeded.
    fn last_parts(&self, stage: &str) -> Option<Parts>;
}

/// State of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Artifact {
    /// Whole.
    Present,
    /// Never made.
    Unknown,
    /// Made, but this file of it is gone.
    Missing { path: String },
    /// Made, but not what its manifest says.
    Damaged,
}

/// Why a stage runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Reason {
    /// It never succeeded.
    NeverRan,
    /// Something that its result depends on is not what it was at the last success.
    PartChanged(PartChange),
    /// A stage whose result it reads runs.
    InputReruns { stage: String },
    /// A file of its result is gone.
    ArtifactMissing { path: String },
    /// Its result is not what its manifest says.
    ArtifactDamaged,
    /// Asked for with `--force`.
    Forced,
}

/// A part of a fingerprint that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartChange {
    /// `config.kl_coef`
    pub part: String,
    /// `None` when the part is new.
    pub old: Option<String>,
    /// `None` when the part is gone.
    pub new: Option<String>,
}

impl fmt::Display for PartChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<String>| match value {
            None => "nothing".to_owned(),
            Some(text) if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) => {
                text[..16].to_owned()
            }
            Some(text) => text.clone(),
        };
        write!(f, "{}: {} → {}", self.part, show(&self.old), show(&self.new))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NeverRan => f.write_str("never ran"),
            Reason::PartChanged(change) => change.fmt(f),
            Reason::InputReruns { stage } => write!(f, "its input `{stage}` runs"),
            Reason::ArtifactMissing { path } => write!(f, "its result lacks {path}"),
            Reason::ArtifactDamaged => f.write_str("its result is damaged"),
            Reason::Forced => f.write_str("forced"),
        }
    }
}

/// What will happen to a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub stage: String,
    #[serde(flatten)]
    pub action: Action,
}

/// Whether a stage runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "kebab-case")]
pub enum Action {
    /// Its result is there.
    Cached,
    /// At least one reason.
    Run { reasons: Vec<Reason> },
}

impl Decision {
    /// Whether the stage runs.
    pub fn runs(&self) -> bool {
        matches!(self.action, Action::Run { .. })
    }
}

/// Decides for every stage of the plan, in its order.
///
/// A stage is cached when a whole result with its fingerprint exists and no stage whose result it reads
/// runs. `forced` stages run in any case.
pub fn decide(plan: &Plan, past: &dyn Past, forced: &BTreeSet<String>) -> Vec<Decision> {
    let mut running = BTreeSet::new();
    let mut decisions = Vec::with_capacity(plan.stages.len());
    for stage in &plan.stages {
        let reasons = reasons(stage, past, forced, &running);
        let action = if reasons.is_empty() {
            Action::Cached
        } else {
            running.insert(stage.name.as_str());
            Action::Run { reasons }
        };
        decisions.push(Decision { stage: stage.name.clone(), action });
    }
    decisions
}

fn reasons(
    stage: &PlannedStage,
    past: &dyn Past,
    forced: &BTreeSet<String>,
    running: &BTreeSet<&str>,
) -> Vec<Reason> {
    let mut reasons = Vec::new();
    if forced.contains(&stage.name) {
        reasons.push(Reason::Forced);
    }
    match past.artifact(&stage.kind, &stage.fingerprint) {
        Artifact::Present => {}
        Artifact::Missing { path } => reasons.push(Reason::ArtifactMissing { path }),
        Artifact::Damaged => reasons.push(Reason::ArtifactDamaged),
        Artifact::Unknown => match past.last_parts(&stage.name) {
            None => reasons.push(Reason::NeverRan),
            Some(old) => {
                // That an input is another one is said by the input itself when it runs.
                let told = |change: &PartChange| {
                    change.part.strip_prefix("input.").is_some_and(|input| running.contains(input))
                };
                let changed = changes(&old, &stage.parts).into_iter().filter(|change| !told(change));
                reasons.extend(changed.map(Reason::PartChanged));
            }
        },
    }
    let rerun = stage.parts.below("input.").map(|(input, _)| input).filter(|input| running.contains(input));
    reasons.extend(rerun.map(|input| Reason::InputReruns { stage: input.to_owned() }));
    // The parts of the last success are these, but its result was dropped since.
    if reasons.is_empty() && past.artifact(&stage.kind, &stage.fingerprint) == Artifact::Unknown {
        reasons.push(Reason::NeverRan);
    }
    reasons
}

/// What differs between two sets of fingerprint parts, by name.
pub fn changes(old: &Parts, new: &Parts) -> Vec<PartChange> {
    let mut both: BTreeMap<&str, (Option<&str>, Option<&str>)> = BTreeMap::new();
    for (name, value) in old.iter() {
        both.entry(name).or_default().0 = Some(value);
    }
    for (name, value) in new.iter() {
        both.entry(name).or_default().1 = Some(value);
    }
    let differing = both.into_iter().filter(|(_, (old, new))| old != new);
    let owned = |value: Option<&str>| value.map(str::to_owned);
    differing
        .map(|(name, (old, new))| PartChange { part: name.into(), old: owned(old), new: owned(new) })
        .collect()
}
