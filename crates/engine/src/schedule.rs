//! What may start now, and what never will. Pure, and kept up to date stage by stage: the end of one costs as
//! much as it has dependents, whatever the size of the plan.

use std::collections::{BTreeSet, HashMap};

use plan::{Links, Plan};
use store::record::StageState;

use crate::slots::Need;

/// The states of a plan's stages.
#[derive(Debug)]
pub(crate) struct Schedule {
    links: Links,
    fingerprints: Vec<String>,
    states: Vec<StageState>,
    /// Dependencies of each stage that are not done.
    waiting: Vec<usize>,
    /// Stages that could start, by what they need: one line for each need, in the plan's order.
    lines: Vec<(Need, BTreeSet<usize>)>,
    line: Vec<usize>,
    /// Fingerprints being made, each with the stages that wait because they would make the same.
    making: HashMap<String, Vec<usize>>,
}

/// A stage that cannot run any more, and the stage that is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub stage: usize,
    pub by: usize,
}

fn is_bad(state: StageState) -> bool {
    matches!(state, StageState::Failed | StageState::Refused | StageState::Skipped)
}

impl Schedule {
    /// `needs`: of each stage of the plan.
    pub fn new(plan: &Plan, states: Vec<StageState>, needs: Vec<Need>) -> Self {
        let fingerprints = plan.stages.iter().map(|stage| stage.fingerprint.0.clone()).collect();
        Self::from_parts(Links::new(plan), fingerprints, states, needs)
    }

    fn from_parts(
        links: Links,
        fingerprints: Vec<String>,
        states: Vec<StageState>,
        needs: Vec<Need>,
    ) -> Self {
        let open = |at: usize| links.deps(at).iter().filter(|&&dep| !states[dep].is_done()).count();
        let waiting: Vec<usize> = (0..states.len()).map(open).collect();
        let (mut lines, mut line) = (Vec::<(Need, BTreeSet<usize>)>::new(), Vec::new());
        for need in needs {
            let found = lines.iter().position(|(other, _)| *other == need);
            line.push(found.unwrap_or(lines.len()));
            if found.is_none() {
                lines.push((need, BTreeSet::new()));
            }
        }
        let making = HashMap::new();
        let mut new = Self { links, fingerprints, states, waiting, lines, line, making };
        (0..new.states.len()).for_each(|at| new.line_up(at));
        new
    }

    pub fn states(&self) -> &[StageState] {
        &self.states
    }

    fn line_up(&mut self, at: usize) {
        if self.states[at] == StageState::Pending && self.waiting[at] == 0 {
            self.lines[self.line[at]].1.insert(at);
        }
    }

    /// Starts the first stage that may start and gets what it needs. Of stages that would make the same
    /// artifact, one runs at a time. `may`: whether a stage is to be started at all.
    pub fn start<S>(
        &mut self,
        may: impl Fn(usize) -> bool,
        mut take: impl FnMut(&Need) -> Option<S>,
    ) -> Option<(usize, S)> {
        let mut order: Vec<(usize, usize)> = Vec::new();
        for (number, (_, line)) in self.lines.iter_mut().enumerate() {
            while let Some(at) = line.iter().copied().find(|&at| may(at)) {
                let Some(parked) = self.making.get_mut(&self.fingerprints[at]) else {
                    order.push((at, number));
                    break;
                };
                line.remove(&at);
                parked.push(at);
            }
        }
        order.sort_unstable();
        for (at, number) in order {
            let (need, line) = &mut self.lines[number];
            if let Some(slot) = take(need) {
                line.remove(&at);
                self.states[at] = StageState::Running;
                self.making.insert(self.fingerprints[at].clone(), Vec::new());
                return Some((at, slot));
            }
        }
        None
    }

    /// Takes note of how a running stage ended, and tells what can never run because of that.
    pub fn ended(&mut self, at: usize, state: StageState) -> Vec<Blocked> {
        self.states[at] = state;
        for parked in self.making.remove(&self.fingerprints[at]).unwrap_or_default() {
            self.line_up(parked);
        }
        if state.is_done() {
            for dependent in self.links.dependents(at).to_vec() {
                self.waiting[dependent] -= 1;
                self.line_up(dependent);
            }
        }
        if is_bad(state) { self.block(self.links.descendants(at)) } else { Vec::new() }
    }

    /// Stages below one that failed, was refused or was skipped before this run began.
    pub fn blocked_at_the_start(&mut self) -> Vec<Blocked> {
        self.block((0..self.states.len()).collect())
    }

    /// Skips those of the candidates, given in the plan's order, that need something that is bad.
    fn block(&mut self, candidates: Vec<usize>) -> Vec<Blocked> {
        let mut blocked = Vec::new();
        for stage in candidates {
            let bad = self.links.deps(stage).iter().find(|&&dep| is_bad(self.states[dep]));
            if self.states[stage] == StageState::Pending
                && let Some(&by) = bad
            {
                self.states[stage] = StageState::Skipped;
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
    use proptest::prelude::*;
    use spec::Device;

    fn need(light: bool) -> Need {
        Need { job: false, light, device: Device::Cpu, memory: 0 }
    }

    fn schedule(deps: &[Vec<usize>], fingerprints: &[usize], states: &[StageState]) -> Schedule {
        let fingerprints = fingerprints.iter().map(usize::to_string).collect();
        let needs = (0..deps.len()).map(|i| need(i % 3 == 0)).collect();
        Schedule::from_parts(Links::from_deps(deps.to_vec()), fingerprints, states.to_vec(), needs)
    }

    #[test]
    fn a_failure_blocks_what_is_below_it_and_nothing_else() {
        let deps = [vec![], vec![0], vec![1], vec![]];
        let mut s = schedule(&deps, &[0, 1, 2, 3], &[Pending; 4]);
        assert_eq!(s.start(|_| true, |_| Some(())), Some((0, ())));
        let blocked = s.ended(0, Failed);
        assert_eq!(blocked, [Blocked { stage: 1, by: 0 }, Blocked { stage: 2, by: 1 }]);
        assert_eq!(s.start(|_| true, |_| Some(())), Some((3, ())));
        let mut s = schedule(&deps, &[0, 1, 2, 3], &[Refused, Pending, Skipped, Cached]);
        assert_eq!(s.blocked_at_the_start(), [Blocked { stage: 1, by: 0 }]);
    }

    #[test]
    fn a_line_whose_need_is_not_met_does_not_hold_up_another() {
        let mut s = schedule(&[vec![], vec![]], &[0, 1], &[Pending; 2]);
        assert_eq!(s.start(|_| true, |need| (!need.light).then_some(())), Some((1, ())));
        assert_eq!(s.start(|_| true, |need| (!need.light).then_some(())), None);
        assert_eq!(s.start(|at| at > 0, |_| Some(())), None);
    }

    /// Pending stages all of whose dependencies are done, none of them with a fingerprint that is being made.
    fn startable(deps: &[Vec<usize>], fingerprints: &[usize], states: &[StageState]) -> Option<usize> {
        let making = |f: usize| (0..states.len()).any(|i| states[i] == Running && fingerprints[i] == f);
        let ready = |&i: &usize| {
            states[i] == Pending && deps[i].iter().all(|&d| states[d].is_done()) && !making(fingerprints[i])
        };
        (0..states.len()).find(ready)
    }

    proptest! {
        #[test]
        fn e17_the_schedule_is_that_of_a_naive_scan(
            dag in prop::collection::vec((prop::collection::vec(any::<prop::sample::Index>(), 0..3), 0usize..6), 1..16),
            known in prop::collection::vec(any::<bool>(), 16),
            choices in prop::collection::vec((any::<prop::sample::Index>(), 0u8..10), 40),
        ) {
            let below = |i: usize, picks: &[prop::sample::Index]| -> Vec<usize> {
                let deps: BTreeSet<usize> = picks.iter().filter(|_| i > 0).map(|p| p.index(i.max(1))).collect();
                deps.into_iter().collect()
            };
            let deps: Vec<Vec<usize>> = dag.iter().enumerate().map(|(i, (picks, _))| below(i, picks)).collect();
            let fingerprints: Vec<usize> = dag.iter().map(|(_, f)| *f).collect();
            let start: Vec<StageState> = (0..deps.len()).map(|i| if known[i] { Cached } else { Pending }).collect();
            let mut s = schedule(&deps, &fingerprints, &start);
            let mut states = start;
            for (pick, verdict) in choices {
                prop_assert_eq!(s.states(), &states[..]);
                let running: Vec<usize> = (0..states.len()).filter(|&i| states[i] == Running).collect();
                if verdict < 5 || running.is_empty() {
                    let started = s.start(|_| true, |_| Some(())).map(|(at, ())| at);
                    prop_assert_eq!(started, startable(&deps, &fingerprints, &states));
                    if let Some(at) = started {
                        states[at] = Running;
                    }
                    continue;
                }
                let at = running[pick.index(running.len())];
                states[at] = match verdict { 5 | 6 => Succeeded, 7 => Failed, 8 => Refused, _ => Cached };
                let blocked: Vec<usize> = s.ended(at, states[at]).into_iter().map(|b| b.stage).collect();
                let mut expected = Vec::new();
                for i in 0..states.len() {
                    if states[i] == Pending && deps[i].iter().any(|&d| is_bad(states[d])) {
                        states[i] = Skipped;
                        expected.push(i);
                    }
                }
                prop_assert_eq!(blocked, expected);
            }
        }
    }
}
