//! What is reachable from the runs that are kept. Pure.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

/// Which runs are kept. One that something alive works on is kept in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Policy {
    /// The newest so many.
    pub keep_runs: Option<usize>,
    /// Those that ended (or, unfinished, began) within this time.
    pub older_than: Option<Duration>,
}

impl Policy {
    /// With nothing asked for, every run is kept.
    fn keeps(&self, position: usize, age: i64) -> bool {
        let newest = self.keep_runs.map(|keep| position < keep);
        let young = self.older_than.map(|limit| i128::from(age) <= limit.as_millis() as i128);
        match (newest, young) {
            (None, None) => true,
            (newest, young) => newest.unwrap_or(false) || young.unwrap_or(false),
        }
    }
}

/// A stage of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageFact {
    pub fingerprint: String,
    pub done: bool,
}

/// A run, with what decides about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFact {
    pub id: String,
    /// Milliseconds since 1970, of its end or else its start.
    pub at: i64,
    /// A live or unseen owner, worker or other run works on it.
    pub in_use: bool,
    pub stages: Vec<StageFact>,
    /// Fingerprints that its attempts have checkpoints of.
    pub checkpoints: BTreeSet<String>,
}

/// What the database says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Newest first.
    pub runs: Vec<RunFact>,
    /// Id → run, and whether its end is not recorded.
    pub attempts: BTreeMap<String, (String, bool)>,
    /// Path → attempt.
    pub checkpoints: BTreeMap<String, String>,
    /// Fingerprint → path and the attempt that made it.
    pub artifacts: BTreeMap<String, (String, String)>,
    /// Fingerprints that are being made, or may be: leased by a live owner, or with an open attempt.
    pub in_making: BTreeSet<String>,
    /// Leases of dead owners.
    pub stale_leases: Vec<String>,
}

/// Rows to delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    pub runs: Vec<String>,
    /// Fingerprints.
    pub artifacts: Vec<String>,
    pub leases: Vec<String>,
}

/// Whether a run may resume a stage from a checkpoint that the other's attempts made.
pub(super) fn goes_on_from(run: &RunFact, other: &RunFact) -> bool {
    run.stages.iter().any(|stage| !stage.done && other.checkpoints.contains(&stage.fingerprint))
}

/// What the policy lets go: runs, and artifacts that no kept run has a stage of.
pub(super) fn removal(facts: &Facts, policy: Policy, now: i64) -> Removal {
    let kept = kept(facts, policy, now);
    let reached: HashSet<&str> = facts
        .runs
        .iter()
        .filter(|run| kept.contains(run.id.as_str()))
        .flat_map(|run| run.stages.iter().map(|stage| stage.fingerprint.as_str()))
        .collect();
    let unreached = |fingerprint: &&String| {
        !reached.contains(fingerprint.as_str()) && !facts.in_making.contains(*fingerprint)
    };
    Removal {
        runs: facts.runs.iter().map(|run| run.id.clone()).filter(|id| !kept.contains(id.as_str())).collect(),
        artifacts: facts.artifacts.keys().filter(unreached).cloned().collect(),
        leases: facts.stale_leases.clone(),
    }
}

/// Runs that stay: by policy or because they are in use, and then whatever those go on from.
fn kept(facts: &Facts, policy: Policy, now: i64) -> BTreeSet<&str> {
    let stays = |(position, run): &(usize, &RunFact)| {
        run.in_use || policy.keeps(*position, now.saturating_sub(run.at))
    };
    let (mut kept, mut others): (Vec<_>, Vec<_>) = facts.runs.iter().enumerate().partition(stays);
    let mut wanted: HashSet<&str> = HashSet::new();
    let mut fresh = 0;
    while fresh < kept.len() {
        let stages = kept[fresh..].iter().flat_map(|(_, run)| &run.stages);
        wanted.extend(stages.filter(|stage| !stage.done).map(|stage| stage.fingerprint.as_str()));
        fresh = kept.len();
        let needed =
            |(_, run): &(usize, &RunFact)| run.checkpoints.iter().any(|c| wanted.contains(c.as_str()));
        let (more, rest) = others.into_iter().partition::<Vec<_>, _>(needed);
        kept.extend(more);
        others = rest;
    }
    kept.into_iter().map(|(_, run)| run.id.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_000_000;

    /// A few runs over a few fingerprints, so that they share many.
    fn facts() -> impl Strategy<Value = Facts> {
        let stage =
            (0..6u8, any::<bool>()).prop_map(|(f, done)| StageFact { fingerprint: format!("f{f}"), done });
        let checkpoints = prop::collection::btree_set((0..6u8).prop_map(|f| format!("f{f}")), 0..3);
        let run = (0..NOW, prop::bool::weighted(0.2), prop::collection::vec(stage, 0..5), checkpoints);
        let runs = prop::collection::vec(run, 0..7);
        let making = prop::collection::btree_set((0..6u8).prop_map(|f| format!("f{f}")), 0..2);
        (runs, making).prop_map(|(mut runs, in_making)| {
            runs.sort_by_key(|run| -run.0);
            let runs = runs.into_iter().enumerate().map(|(i, (at, in_use, stages, checkpoints))| RunFact {
                id: format!("r{i}"),
                at,
                in_use,
                stages,
                checkpoints,
            });
            let artifacts =
                (0..6).map(|f| (format!("f{f}"), (format!("artifacts/f{f}"), String::new()))).collect();
            Facts { runs: runs.collect(), artifacts, in_making, ..Facts::default() }
        })
    }

    fn policy() -> impl Strategy<Value = Policy> {
        let older = prop::option::of((0..NOW as u64).prop_map(Duration::from_millis));
        (prop::option::of(0..8usize), older)
            .prop_map(|(keep_runs, older_than)| Policy { keep_runs, older_than })
    }

    proptest! {
        #[test]
        fn e132_nothing_that_a_kept_run_reaches_goes(facts in facts(), policy in policy()) {
            let removal = removal(&facts, policy, NOW);
            let kept: Vec<_> = facts.runs.iter().filter(|run| !removal.runs.contains(&run.id)).collect();
            for (position, run) in facts.runs.iter().enumerate() {
                let newest = policy.keep_runs.is_some_and(|keep| position < keep);
                let young = policy.older_than.is_some_and(|d| NOW - run.at <= d.as_millis() as i64);
                let all = policy == Policy::default();
                if run.in_use || newest || young || all {
                    prop_assert!(!removal.runs.contains(&run.id), "{} is to be kept", run.id);
                }
            }
            for fingerprint in &removal.artifacts {
                prop_assert!(!facts.in_making.contains(fingerprint));
                let reached = kept.iter().any(|run| run.stages.iter().any(|s| s.fingerprint == *fingerprint));
                prop_assert!(!reached, "{fingerprint} is reached");
            }
            for gone in facts.runs.iter().filter(|run| removal.runs.contains(&run.id)) {
                for run in &kept {
                    let open = run.stages.iter().filter(|stage| !stage.done);
                    let lost = open.filter(|stage| gone.checkpoints.contains(&stage.fingerprint)).count();
                    prop_assert_eq!(lost, 0, "{} goes on from {}", &run.id, &gone.id);
                }
            }
        }

        #[test]
        fn what_nobody_needs_goes(facts in facts()) {
            let mut facts = facts;
            facts.runs.iter_mut().for_each(|run| run.in_use = false);
            facts.in_making.clear();
            let removal = removal(&facts, Policy { keep_runs: Some(0), older_than: None }, NOW);
            prop_assert_eq!(removal.runs.len(), facts.runs.len());
            prop_assert_eq!(removal.artifacts.len(), facts.artifacts.len());
        }
    }
}
