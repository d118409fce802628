//! Stages that name others: they exist, they fit, they do not run in circles, their splits are made.

use std::collections::HashMap;

use super::File;
use crate::mistake::{Mistakes, Problem};
use crate::nearest::nearest;
use crate::node::Node;
use crate::pipeline::{Pipeline, Stage};
use crate::stage::{Reference, StageConfig};

pub(super) fn check(pipeline: &Pipeline, file: &File<'_>, out: &mut Mistakes) {
    for stage in &pipeline.stages {
        for reference in stage.references() {
            check_reference(stage, &reference, file, out);
        }
        check_split(stage, file, out);
    }
    for cycle in cycles(pipeline) {
        note_cycle(&cycle, file, out);
    }
}

fn check_reference(stage: &Stage, reference: &Reference, file: &File<'_>, out: &mut Mistakes) {
    let at = file.at(&stage.name, &reference.key);
    // A stage whose kind is not known is there all the same: naming it is no second mistake.
    if !file.written.contains_key(reference.stage.as_str()) {
        let written = file.root.get("stages").and_then(Node::entries).unwrap_or_default();
        let names: Vec<&str> = written.iter().map(|entry| entry.name.as_str()).collect();
        let others = names.iter().copied().filter(|name| *name != stage.name);
        let problem = Problem::UnknownStage {
            stage: reference.stage.clone(),
            nearest: nearest(&reference.stage, others).map(str::to_owned),
            stages: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        return out.note(&at, problem);
    }
    let Some(named) = file.stage(&reference.stage) else { return };
    let kind = named.config.kind();
    if !reference.kinds.is_empty() && !reference.kinds.contains(&kind) {
        let allowed = reference.kinds.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(" or ");
        let problem = Problem::WrongKind {
            key: format!("stages.{}.{}", stage.name, reference.key),
            stage: named.name.clone(),
            kind: kind.to_owned(),
            allowed,
        };
        out.note(&at, problem);
    }
}

fn check_split(stage: &Stage, file: &File<'_>, out: &mut Mistakes) {
    let mut used = None;
    let mut data = None;
    stage.config.section().each(&mut |key, value| {
        if key.rule.split {
            used = value.names().first().map(|name| (*name).to_owned());
        }
        if key.name == "data" {
            data = value.names().first().and_then(|name| file.stage(name));
        }
    });
    let (Some(used), Some(data)) = (used, data) else { return };
    let StageConfig::Prepare(prepare) = &data.config else { return };
    let splits = prepare.splits();
    if !splits.contains(&used.as_str()) {
        let problem = Problem::UnknownSplit {
            nearest: nearest(&used, splits.iter().copied()).map(str::to_owned),
            splits: splits.iter().map(|split| (*split).to_owned()).collect(),
            split: used,
            data: data.name.clone(),
        };
        out.note(&file.at(&stage.name, "split"), problem);
    }
}

/// Cycles of stages, no two with a stage in common, each starting from its first stage in the file.
fn cycles(pipeline: &Pipeline) -> Vec<Vec<String>> {
    let stages = &pipeline.stages;
    let number: HashMap<&str, usize> =
        stages.iter().enumerate().map(|(number, stage)| (stage.name.as_str(), number)).collect();
    let deps: Vec<Vec<usize>> = stages
        .iter()
        .map(|stage| {
            pipeline
                .dependencies(stage)
                .iter()
                .filter_map(|name| number.get(name.as_str()).copied())
                .collect()
        })
        .collect();
    let mut done = vec![false; stages.len()];
    let mut found = Vec::new();
    loop {
        finish_free(&deps, &mut done);
        let Some(start) = done.iter().position(|done| !done) else { return found };
        // What is left waits for something that is left: following that ends in a circle.
        let mut path = vec![start];
        let first = loop {
            let here = path[path.len() - 1];
            let Some(&next) = deps[here].iter().find(|dep| !done[**dep]) else { return found };
            if let Some(first) = path.iter().position(|other| *other == next) {
                break first;
            }
            path.push(next);
        };
        let mut cycle = path.split_off(first);
        cycle.iter().for_each(|&stage| done[stage] = true);
        let head = cycle.iter().enumerate().min_by_key(|(_, stage)| **stage).map_or(0, |(at, _)| at);
        cycle.rotate_left(head);
        cycle.push(cycle[0]);
        found.push(cycle.into_iter().map(|stage| stages[stage].name.clone()).collect());
    }
}

/// Marks stages all of whose dependencies are done, as long as there are any.
fn finish_free(deps: &[Vec<usize>], done: &mut [bool]) {
    let mut needed_by = vec![Vec::new(); deps.len()];
    let mut waiting = vec![0; deps.len()];
    for (stage, of_stage) in deps.iter().enumerate().filter(|(stage, _)| !done[*stage]) {
        for &dep in of_stage.iter().filter(|dep| !done[**dep]) {
            needed_by[dep].push(stage);
            waiting[stage] += 1;
        }
    }
    let mut free: Vec<_> = (0..deps.len()).filter(|stage| !done[*stage] && waiting[*stage] == 0).collect();
    while let Some(stage) = free.pop() {
        done[stage] = true;
        for &next in &needed_by[stage] {
            waiting[next] -= 1;
            if waiting[next] == 0 {
                free.push(next);
            }
        }
    }
}

fn note_cycle(cycle: &[String], file: &File<'_>, out: &mut Mistakes) {
    let places = cycle.iter().zip(&cycle[1..]).map(|(from, to)| {
        let references = file.stage(from).map(Stage::references).unwrap_or_default();
        let key =
            references.into_iter().find(|reference| reference.stage == *to).map(|reference| reference.key);
        let key = key.unwrap_or_else(|| "stages".to_owned());
        let at = file.at(from, &key);
        (format!("{from} → {to}: `{key}` at {}", out.sources.show(&at)), at)
    });
    let (edges, places): (Vec<_>, Vec<_>) = places.unzip();
    if let Some(first) = places.first() {
        out.note(first, Problem::Cycle { path: cycle.to_vec(), edges });
    }
}
