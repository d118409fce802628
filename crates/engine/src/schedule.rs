//! What may start now, and what never will: pure functions over the states of a plan's stages.

use std::collections::HashMap;

use plan::Plan;
use store::record::StageState;

/// The plan's dependencies as positions.
#[derive(Debug)]
pub struct Graph {
    deps: Vec<Vec<usize>>,
    fingerprints: Vec<String>,
}

/// A stage that cannot run any more, and the stage that is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked {
    pub stage: usize,
    pub by: usize,
}

impl Graph {
    /// Dependencies that are not in the plan are passed over; planning has refused them.
    pub fn new(plan: &Plan) -> Self {
        let position: HashMap<&str, usize> =
            plan.stages.iter().enumerate().map(|(i, s)| (s.name.as_str(), i)).collect();
        let deps = |s: &plan::PlannedStage| {
            s.deps.iter().filter_map(|d| position.get(d.as_str()).copied()).collect()
        };
        Self {
            deps: plan.stages.iter().map(deps).collect(),
            fingerprints: plan.stages.iter().map(|s| s.fingerprint.0.clone()).collect(),
        }
    }

    /// Pending stages all of whose dependencies are done, in the plan's order. Of stages that would make
    /// the same artifact, one at a time.
    pub fn ready(&self, states: &[StageState]) -> Vec<usize> {
        let mut making: Vec<&str> = Vec::new();
        for (i, _) in states.iter().enumerate().filter(|(_, s)| **s == StageState::Running) {
            making.push(&self.fingerprints[i]);
        }
        let mut ready = Vec::new();
        for (i, state) in states.iter().enumerate() {
            let free = *state == StageState::Pending && self.deps[i].iter().all(|&d| states[d].is_done());
            if free && !making.contains(&self.fingerprints[i].as_str()) {
                making.push(&self.fingerprints[i]);
                ready.push(i);
            }
        }
        ready
    }

    /// Pending stages below one that failed, was refused or was skipped.
    pub fn blocked(&self, states: &[StageState]) -> Vec<Blocked> {
        let mut states = states.to_vec();
        let mut blocked = Vec::new();
        // The plan is in topological order, so one pass sees through chains.
        for stage in 0..states.len() {
            let bad = |&&d: &&usize| {
                matches!(states[d], StageState::Failed | StageState::Refused | StageState::Skipped)
            };
            if states[stage] == StageState::Pending
                && let Some(&by) = self.deps[stage].iter().find(bad)
            {
                states[stage] = StageState::Skipped;
                blocked.push(Blocked { stage, by });
            }
        }
        blocked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StageState::{Cached, Failed, Pending, Refused, Running, Skipped, Succeeded};

    fn graph(deps: &[&[usize]]) -> Graph {
        let fingerprints = (0..deps.len()).map(|i| i.to_string()).collect();
        Graph { deps: deps.iter().map(|d| d.to_vec()).collect(), fingerprints }
    }

    #[test]
    fn a_diamond_runs_in_order() {
        let g = graph(&[&[], &[0], &[0], &[1, 2]]);
        assert_eq!(g.ready(&[Pending; 4]), [0]);
        assert_eq!(g.ready(&[Cached, Pending, Pending, Pending]), [1, 2]);
        assert_eq!(g.ready(&[Cached, Succeeded, Running, Pending]), [] as [usize; 0]);
        assert_eq!(g.ready(&[Cached, Succeeded, Succeeded, Pending]), [3]);
    }

    #[test]
    fn a_failure_blocks_what_is_below_it_and_nothing_else() {
        let g = graph(&[&[], &[0], &[1], &[]]);
        let blocked = g.blocked(&[Failed, Pending, Pending, Pending]);
        assert_eq!(blocked, [Blocked { stage: 1, by: 0 }, Blocked { stage: 2, by: 1 }]);
        assert_eq!(g.ready(&[Failed, Skipped, Skipped, Pending]), [3]);
        assert!(g.blocked(&[Refused, Skipped, Skipped, Succeeded]).is_empty());
    }

    #[test]
    fn equal_fingerprints_are_made_one_after_the_other() {
        let mut g = graph(&[&[], &[], &[]]);
        g.fingerprints = vec!["a".into(), "a".into(), "b".into()];
        assert_eq!(g.ready(&[Pending; 3]), [0, 2]);
        assert_eq!(g.ready(&[Running, Pending, Pending]), [2]);
        assert_eq!(g.ready(&[Succeeded, Pending, Running]), [1]);
    }
}
