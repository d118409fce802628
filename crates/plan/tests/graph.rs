//! Random graphs: order, ancestors, fingerprints and decisions against naive models.

mod common;

use std::collections::BTreeSet;

use common::{Memory, differing, parse, plan};
use plan::{Artifact, Links, Plan, Reason, Selection, decide};
use proptest::prelude::*;

/// A graph of `n` stages: leaves prepare, others report on earlier ones. `shuffle` orders the file.
#[derive(Debug, Clone)]
struct Dag {
    deps: Vec<Vec<usize>>,
    shuffle: Vec<usize>,
}

fn dags() -> impl Strategy<Value = Dag> {
    (1usize..12).prop_flat_map(|n| {
        let deps: Vec<_> =
            (0..n).map(|i| proptest::sample::subsequence((0..i).collect::<Vec<_>>(), 0..=i.min(3))).collect();
        (deps, Just((0..n).collect::<Vec<_>>()).prop_shuffle())
            .prop_map(|(deps, shuffle)| Dag { deps, shuffle })
    })
}

impl Dag {
    /// The file; stage `changed` holds out another number of questions, or has another kind of extra input.
    fn text(&self, changed: Option<usize>, save_steps: usize) -> String {
        let mut text = format!("[pipeline]\nname = \"t\"\n[executor]\ncpus = {save_steps}\n");
        for &i in &self.shuffle {
            if self.deps[i].is_empty() {
                let eval = if changed == Some(i) { 7 } else { 500 };
                text.push_str(&format!(
                    "[stages.s{i}]\nkind = \"prepare\"\npath = \"a.jsonl\"\neval = {eval}\nmax_retries = {save_steps}\n"
                ));
                text.push_str("model = \"base\"\n");
            } else {
                let deps: Vec<_> = self.deps[i].iter().map(|dep| format!("\"s{dep}\"")).collect();
                text.push_str(&format!("[stages.s{i}]\nkind = \"report\"\nstages = [{}]\n", deps.join(", ")));
                text.push_str(&format!("max_retries = {save_steps}\n"));
            }
        }
        text.push_str("[stages.base]\nkind = \"pretrain\"\nformat = \"synthetic-qa\"\n");
        text.push_str(&format!("save_steps = {}\n", save_steps + 1));
        text
    }

    fn plan(&self, changed: Option<usize>, save_steps: usize) -> Plan {
        plan(&parse(&self.text(changed, save_steps)))
    }

    /// `start` and all that depend on it.
    fn below(&self, start: usize) -> BTreeSet<String> {
        let mut found = BTreeSet::from([start]);
        for i in start + 1..self.deps.len() {
            if self.deps[i].iter().any(|dep| found.contains(dep)) {
                found.insert(i);
            }
        }
        found.into_iter().map(|i| format!("s{i}")).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn e11_stages_come_after_all_they_need(dag in dags()) {
        let plan = dag.plan(None, 0);
        let links = Links::new(&plan);
        let mut above: Vec<BTreeSet<usize>> = Vec::new();
        for (at, stage) in plan.stages.iter().enumerate() {
            let deps: Vec<usize> = stage.deps.iter().map(|dep| {
                plan.stages.iter().position(|stage| stage.name == *dep).expect("planned")
            }).collect();
            prop_assert!(deps.iter().all(|dep| *dep < at));
            prop_assert_eq!(links.deps(at), &deps);
            let needed = deps.iter().flat_map(|&dep| above[dep].iter().copied().chain([dep])).collect();
            above.push(needed);
            prop_assert_eq!(links.ancestors(at), above[at].iter().copied().collect::<Vec<_>>());
        }
        for at in 0..above.len() {
            let below: Vec<_> = (0..above.len()).filter(|other| above[*other].contains(&at)).collect();
            prop_assert_eq!(links.descendants(at), below);
        }
    }

    #[test]
    fn e56_fingerprints_do_not_depend_on_order(dag in dags()) {
        let mut sorted = dag.clone();
        sorted.shuffle.sort();
        let (a, b) = (dag.plan(None, 0), sorted.plan(None, 0));
        prop_assert_eq!(differing(&a, &b), BTreeSet::new());
        prop_assert_eq!(a.spec_hash, b.spec_hash);
    }

    #[test]
    fn e61_a_change_reaches_exactly_what_is_below(dag in dags(), pick in any::<prop::sample::Index>()) {
        let leaves: Vec<_> = (0..dag.deps.len()).filter(|i| dag.deps[*i].is_empty()).collect();
        let leaf = leaves[pick.index(leaves.len())];
        let (old, new) = (dag.plan(None, 0), dag.plan(Some(leaf), 0));
        prop_assert_eq!(differing(&old, &new), dag.below(leaf));
        let decisions = decide(&new, &Memory::after(&old), &BTreeSet::new());
        let run: BTreeSet<_> = decisions.iter().filter(|d| d.runs()).map(|d| d.stage.clone()).collect();
        prop_assert_eq!(run, dag.below(leaf));
    }

    #[test]
    fn e59_execution_fields_change_nothing(dag in dags(), n in 1usize..50) {
        let (old, new) = (dag.plan(None, 0), dag.plan(None, n));
        prop_assert_eq!(differing(&old, &new), BTreeSet::new());
        prop_assert!(decide(&new, &Memory::after(&old), &BTreeSet::new()).iter().all(|d| !d.runs()));
    }

    #[test]
    fn e46_a_missing_result_is_made_again_with_all_below(dag in dags(), pick in any::<prop::sample::Index>()) {
        let start = pick.index(dag.deps.len());
        let plan = dag.plan(None, 0);
        let mut past = Memory::after(&plan);
        let name = format!("s{start}");
        let gone = plan.stage(&name).expect("the stage").fingerprint.clone();
        past.artifacts.insert(gone, Artifact::Missing { path: "x".into() });
        let run = |decisions: Vec<plan::Decision>| -> BTreeSet<String> {
            decisions.into_iter().filter(|d| d.runs()).map(|d| d.stage).collect()
        };
        // Stages that are alike but for their names share a result.
        let gone = &plan.stage(&name).expect("the stage").fingerprint;
        let alike = (0..dag.deps.len()).filter(|i| plan.stage(&format!("s{i}")).is_some_and(|s| s.fingerprint == *gone));
        let below: BTreeSet<_> = alike.flat_map(|i| dag.below(i)).collect();
        prop_assert_eq!(run(decide(&plan, &past, &BTreeSet::new())), below);
        let forced = decide(&plan, &Memory::after(&plan), &BTreeSet::from([name]));
        prop_assert_eq!(run(forced), dag.below(start));
    }
}

#[test]
fn ties_go_by_order_of_the_file() {
    let names = |shuffle: Vec<usize>| {
        let dag = Dag { deps: vec![vec![], vec![], vec![0], vec![1]], shuffle };
        dag.plan(None, 0).stages.into_iter().map(|stage| stage.name).collect::<Vec<_>>()
    };
    assert_eq!(names(vec![0, 1, 2, 3]), ["base", "s0", "s1", "s2", "s3"]);
    assert_eq!(names(vec![3, 1, 2, 0]), ["base", "s1", "s3", "s0", "s2"]);
}

#[test]
fn a_first_run_runs_everything() {
    let plan = Dag { deps: vec![vec![], vec![0]], shuffle: vec![0, 1] }.plan(None, 0);
    let decisions = decide(&plan, &Memory::default(), &BTreeSet::new());
    let plan::Action::Run { reasons } = &decisions[0].action else { panic!("runs") };
    assert_eq!(reasons, &[Reason::NeverRan]);
    let text = serde_json::to_string(&decisions[1]).expect("JSON");
    assert_eq!(
        text,
        r#"{"stage":"s0","action":"run","reasons":[{"reason":"never-ran"},{"reason":"input-reruns","stage":"base"}]}"#
    );
}

#[test]
fn a_part_of_a_plan_is_what_is_named_and_what_that_needs() {
    // base; s0; s1 ← s0; s2 ← s1; s3 ← s0
    let whole =
        Dag { deps: vec![vec![], vec![0], vec![1], vec![0]], shuffle: vec![0, 1, 2, 3] }.plan(None, 0);
    let select = |only: &[&str], from: &[&str], until: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let part =
            whole.clone().select(&Selection { only: owned(only), from: owned(from), until: owned(until) });
        assert!(part.stages.iter().all(|stage| whole.stage(&stage.name) == Some(stage)));
        part.stages.iter().map(|stage| stage.name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(select(&[], &[], &[]), "base s0 s1 s2 s3");
    assert_eq!(select(&["s1"], &[], &[]), "base s0 s1");
    assert_eq!(select(&[], &["s1"], &[]), "base s0 s1 s2");
    assert_eq!(select(&[], &[], &["s3"]), "base s0 s3");
    assert_eq!(select(&[], &["s0"], &["s1"]), "base s0 s1", "what lies between");
    let part = whole.clone().select(&Selection { until: vec!["s3".into()], ..Selection::default() });
    assert!(part.is_part && part.spec_hash != whole.spec_hash);
    let all =
        whole.clone().select(&Selection { until: vec!["s2".into(), "s3".into()], ..Selection::default() });
    assert_eq!(all.spec_hash, whole.spec_hash);
}
