//! Dependencies of a plan's stages as positions in it: what scheduling works on.

use std::collections::HashMap;

use crate::planned::Plan;

/// Who needs whom. A stage's position is its place in [`Plan::stages`].
#[derive(Debug, Clone)]
pub struct Links {
    deps: Vec<Vec<usize>>,
    dependents: Vec<Vec<usize>>,
}

impl Links {
    /// Dependencies that are not in the plan are passed over; planning has refused them.
    pub fn new(plan: &Plan) -> Self {
        let position: HashMap<&str, usize> =
            plan.stages.iter().enumerate().map(|(at, stage)| (stage.name.as_str(), at)).collect();
        let of = |names: &[String]| names.iter().filter_map(|n| position.get(n.as_str()).copied()).collect();
        Self::from_deps(plan.stages.iter().map(|stage| of(&stage.deps)).collect())
    }

    /// From the direct dependencies of each stage.
    pub fn from_deps(deps: Vec<Vec<usize>>) -> Self {
        let mut dependents = vec![Vec::new(); deps.len()];
        for (stage, needed) in deps.iter().enumerate() {
            for &dep in needed {
                dependents[dep].push(stage);
            }
        }
        Self { deps, dependents }
    }

    /// Direct dependencies.
    pub fn deps(&self, stage: usize) -> &[usize] {
        &self.deps[stage]
    }

    /// Stages that depend on it directly.
    pub fn dependents(&self, stage: usize) -> &[usize] {
        &self.dependents[stage]
    }

    /// All that a stage needs, directly or not, in the plan's order.
    pub fn ancestors(&self, stage: usize) -> Vec<usize> {
        closure(&self.deps, stage)
    }

    /// All that need a stage, directly or not, in the plan's order.
    pub fn descendants(&self, stage: usize) -> Vec<usize> {
        closure(&self.dependents, stage)
    }
}

fn closure(edges: &[Vec<usize>], start: usize) -> Vec<usize> {
    let mut found = std::collections::BTreeSet::new();
    let mut open = edges[start].clone();
    while let Some(at) = open.pop() {
        if found.insert(at) {
            open.extend(&edges[at]);
        }
    }
    found.into_iter().collect()
}
