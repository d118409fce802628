//! What a job asks for: one kind of memory, arguments that do not take the engine's own, names that are names.

use super::File;
use crate::executor::Place;
use crate::mistake::{Mistakes, Problem};
use crate::node::{At, Node};
use crate::pipeline::Pipeline;
use crate::section::Section;

/// Options that say whose job it is and where its files are.
const OURS: [&str; 14] = [
    "--array",
    "--chdir",
    "--comment",
    "--error",
    "--export",
    "--job-name",
    "--no-requeue",
    "--open-mode",
    "--output",
    "--parsable",
    "--requeue",
    "--signal",
    "--wait",
    "--wrap",
];
/// Their short forms.
const OURS_SHORT: [&str; 7] = ["-a", "-D", "-e", "-J", "-o", "-Q", "-W"];

pub(super) fn check(pipeline: &Pipeline, file: &File<'_>, out: &mut Mistakes) {
    if let Some(node) = file.root.get("executor") {
        check_place(&pipeline.executor.place, node, out);
    }
    for (stage, place) in &pipeline.executor.overrides.stages {
        if let Some(node) = file.find(stage, "executor") {
            check_place(place, node, out);
        }
    }
}

fn check_place(place: &Place, node: &Node, out: &mut Mistakes) {
    let at = |key: &str| node.get(key).map_or_else(|| node.at.clone(), |value| value.at.clone());
    let memory = [
        ("mem", place.mem.is_some()),
        ("mem_per_cpu", place.mem_per_cpu.is_some()),
        ("mem_per_gpu", place.mem_per_gpu.is_some()),
    ];
    let asked: Vec<&str> = memory.iter().filter(|(_, asked)| *asked).map(|(key, _)| *key).collect();
    if let [first, .., second] = asked.as_slice() {
        let message = format!("a job cannot ask for both `{first}` and `{second}`");
        conflict(&at(second), message, "keep one of mem, mem_per_cpu and mem_per_gpu", out);
    }
    place.each(&mut |key, value| {
        let lines = value.names().iter().any(|text| text.contains(['\n', '\r', '\0']));
        if lines {
            let message = format!("`{}` has more than one line", key.name);
            conflict(&at(key.name), message, "each value becomes a part of one line", out);
        }
    });
    for argument in &place.sbatch_args {
        let name = argument.split('=').next().unwrap_or_default();
        let short = OURS_SHORT.iter().any(|ours| argument.starts_with(ours) && !argument.starts_with("--"));
        if OURS.contains(&name) || short {
            let message = format!("the engine itself gives `{name}` to sbatch");
            conflict(&at("sbatch_args"), message, "leave it out", out);
        } else if !argument.starts_with('-') {
            let message = format!("`{argument}` is not an argument of sbatch");
            conflict(
                &at("sbatch_args"),
                message,
                "write it as sbatch takes it: \"--reservation=night\"",
                out,
            );
        }
    }
    for name in &place.export {
        let word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !word || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            let message = format!("`{name}` is not the name of an environment variable");
            let help = "only names: values are taken from the environment of `pipeline`, so that no secret is written";
            conflict(&at("export"), message, help, out);
        }
    }
}

fn conflict(at: &At, message: String, help: &str, out: &mut Mistakes) {
    out.note(at, Problem::Conflict { message, help: help.to_owned() });
}
