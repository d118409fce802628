//! The graph as text for other tools: Mermaid for Markdown, dot for Graphviz.

use std::fmt::Write;

use crate::planned::{Plan, PlannedStage};

/// A Mermaid flow chart. Dotted arrows are requirements of which nothing is read.
pub fn mermaid(plan: &Plan) -> String {
    let mut text = String::from("flowchart TD\n");
    for (index, stage) in plan.stages.iter().enumerate() {
        let _ = writeln!(text, "    s{index}[\"{}<br><i>{}</i>\"]", stage.name, stage.kind);
    }
    for edge in edges(plan) {
        let arrow = if edge.read { "-->" } else { "-.->" };
        let _ = writeln!(text, "    s{} {arrow} s{}", edge.from, edge.to);
    }
    text
}

/// A Graphviz graph. Dashed edges are requirements of which nothing is read.
pub fn dot(plan: &Plan) -> String {
    let mut text = format!("digraph {:?} {{\n    node [shape=box];\n", plan.name);
    for stage in &plan.stages {
        let _ = writeln!(text, "    {:?} [label=\"{}\\n{}\"];", stage.name, stage.name, stage.kind);
    }
    for edge in edges(plan) {
        let style = if edge.read { "" } else { " [style=dashed]" };
        let _ = writeln!(
            text,
            "    {:?} -> {:?}{style};",
            plan.stages[edge.from].name, plan.stages[edge.to].name
        );
    }
    text.push_str("}\n");
    text
}

struct Edge {
    from: usize,
    to: usize,
    /// Whether the result is read.
    read: bool,
}

fn edges(plan: &Plan) -> Vec<Edge> {
    let position = |name: &str| plan.stages.iter().position(|stage| stage.name == name);
    let reads =
        |stage: &PlannedStage, name: &str| stage.parts.below("input.").any(|(input, _)| input == name);
    let mut edges = Vec::new();
    for (to, stage) in plan.stages.iter().enumerate() {
        for name in &stage.deps {
            edges.extend(position(name).map(|from| Edge { from, to, read: reads(stage, name) }));
        }
    }
    edges
}
