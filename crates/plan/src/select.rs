//! A part of a plan: some stages and all that they need.

use std::collections::BTreeSet;

use crate::links::Links;
use crate::planned::Plan;

/// Which stages are wanted; nothing named means all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// These alone; what they need must have been made.
    pub only: Vec<String>,
    /// These and all that depends on them.
    pub from: Vec<String>,
    /// These, and nothing that only others need.
    pub until: Vec<String>,
}

impl Selection {
    /// Whether everything is wanted.
    pub fn is_all(&self) -> bool {
        self.only.is_empty() && self.from.is_empty() && self.until.is_empty()
    }

    /// All names in it.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.only.iter().chain(&self.from).chain(&self.until)
    }
}

impl Plan {
    /// The stages that are wanted and all that these need, in the same order, with the same fingerprints.
    /// With `from` and `until` together: what lies between them. Names that the plan does not have are
    /// passed over.
    pub fn select(self, selection: &Selection) -> Self {
        if selection.is_all() {
            return self;
        }
        let links = Links::new(&self);
        let positions = |names: &[String]| -> Vec<usize> {
            let is_named = |at: &usize| names.contains(&self.stages[*at].name);
            (0..self.stages.len()).filter(is_named).collect()
        };
        let below: BTreeSet<usize> = positions(&selection.from)
            .into_iter()
            .flat_map(|at| [vec![at], links.descendants(at)].concat())
            .collect();
        let above: BTreeSet<usize> = positions(&selection.until)
            .into_iter()
            .flat_map(|at| [vec![at], links.ancestors(at)].concat())
            .collect();
        let mut wanted: BTreeSet<usize> = match (selection.from.is_empty(), selection.until.is_empty()) {
            (false, false) => below.intersection(&above).copied().collect(),
            _ => below.union(&above).copied().collect(),
        };
        wanted.extend(positions(&selection.only));
        let needed: BTreeSet<usize> = wanted.iter().flat_map(|&at| links.ancestors(at)).collect();
        let mut stages = self.stages;
        let mut at = 0;
        stages.retain(|_| {
            at += 1;
            wanted.contains(&(at - 1)) || needed.contains(&(at - 1))
        });
        let spec_hash = crate::freeze::spec_hash(&stages);
        Self { stages, spec_hash, is_part: true, ..self }
    }
}
