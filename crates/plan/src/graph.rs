//! Which stage needs which, and an order in which they can run.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::{Direction, algo};
use spec::Pipeline;

use crate::error::PlanError;

/// Stages as nodes, numbered by their order in the file; an edge goes from what is needed to what needs it.
pub(crate) struct Graph<'a> {
    pipeline: &'a Pipeline,
    graph: DiGraph<(), ()>,
    /// Direct dependencies by node, in the order in which the stage names them.
    deps: Vec<Vec<NodeIndex>>,
}

impl<'a> Graph<'a> {
    pub fn new(pipeline: &'a Pipeline) -> Result<Self, PlanError> {
        let mut graph = DiGraph::with_capacity(pipeline.stages.len(), 2 * pipeline.stages.len());
        let nodes: HashMap<&str, NodeIndex> =
            pipeline.stages.iter().map(|stage| (stage.name.as_str(), graph.add_node(()))).collect();
        let mut deps = Vec::with_capacity(nodes.len());
        for stage in &pipeline.stages {
            let mut of_stage = Vec::new();
            for name in pipeline.dependencies(stage) {
                let Some(&needed) = nodes.get(name.as_str()) else {
                    return Err(PlanError::UnknownStage { stage: stage.name.clone(), unknown: name });
                };
                graph.add_edge(needed, nodes[stage.name.as_str()], ());
                of_stage.push(needed);
            }
            deps.push(of_stage);
        }
        Ok(Self { pipeline, graph, deps })
    }

    /// Every stage after all it needs; of those that could come next, the first in the file.
    pub fn order(&self) -> Result<Vec<NodeIndex>, PlanError> {
        let mut waiting: Vec<_> = self.graph.node_indices().map(|node| self.needs(node).count()).collect();
        let mut ready: BinaryHeap<_> =
            self.graph.node_indices().filter(|node| waiting[node.index()] == 0).map(Reverse).collect();
        let mut order = Vec::with_capacity(waiting.len());
        while let Some(Reverse(node)) = ready.pop() {
            order.push(node);
            for next in self.graph.neighbors_directed(node, Direction::Outgoing) {
                waiting[next.index()] -= 1;
                if waiting[next.index()] == 0 {
                    ready.push(Reverse(next));
                }
            }
        }
        if order.len() == waiting.len() { Ok(order) } else { Err(self.cycle()) }
    }

    fn needs(&self, node: NodeIndex) -> impl Iterator<Item = NodeIndex> {
        self.graph.neighbors_directed(node, Direction::Incoming)
    }

    fn cycle(&self) -> PlanError {
        let rings = algo::tarjan_scc(&self.graph);
        let ring =
            rings.into_iter().find(|ring| ring.len() > 1 || self.graph.contains_edge(ring[0], ring[0]));
        let mut ring = ring.unwrap_or_default();
        ring.sort();
        PlanError::Cycle { stages: ring.into_iter().map(|node| self.name(node)).collect() }
    }

    /// Name of a stage.
    pub fn name(&self, node: NodeIndex) -> String {
        self.pipeline.stages[node.index()].name.clone()
    }

    /// Direct dependencies, in the order in which the stage names them.
    pub fn deps(&self, node: NodeIndex) -> Vec<String> {
        self.deps[node.index()].iter().map(|&needed| self.name(needed)).collect()
    }
}
