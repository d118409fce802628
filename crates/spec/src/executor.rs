//! `[executor]` and `[stages.NAME.executor]`: how and where stages are run. Nothing here changes a result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::mistake::Mistakes;
use crate::node::Node;
use crate::section::{Section, choice, section};
use crate::value::Value;

section! {
    /// `[executor]`: how stages are run. Nothing here changes a result.
    pub struct Executor {
        /// CPU threads shared by the stages that run at once on this machine; 0 = all of it. No stage gets more
        /// than there are.
        pub cpus: usize = 0 => execution(),
        /// Memory of this machine shared by the stages that ask for some with `memory`; 0 = all of it.
        pub memory: u64 = 0 => size().execution(),
        /// Stages that compute at the same time on this machine; they share the CPU threads.
        pub max_parallel: usize = 1 => at_least(1.0).execution(),
        /// Attempts after the first when a stage dies of something outside it: killed, out of memory, disk.
        pub infra_retries: u32 = 3 => at_most(100.0).execution(),
        /// Wait before the first retry; doubles with each further one.
        pub retry_delay: f64 = 1.0 => duration().execution(),
        /// The log of an attempt is cut when it grows beyond this; its last part is kept beside it.
        pub max_log_size: u64 = 50_000_000 => size().execution(),
        /// A run does not start with less free space than this for its state folder.
        pub min_free_disk: u64 = 200_000_000 => size().execution(),
        /// Slurm: jobs of this run that wait or run at the same time.
        pub max_jobs: usize = 50 => at_least(1.0).execution(),
        /// Slurm: commands sent to it per second at most.
        pub submit_rate: f64 = 5.0 => above(0.0).at_most(1000.0).execution(),
        /// Slurm: time between two looks at the queue; while nothing changes it grows to six times this.
        pub poll_interval: f64 = 10.0 => duration().at_least(0.01).execution(),
        /// Slurm: what `sbatch`, `squeue` and the like may take before they are given up.
        pub command_timeout: f64 = 60.0 => duration().at_least(0.1).execution(),
        /// Slurm: how long a job whose submission is in doubt is looked for before it is submitted again, and
        /// how long the files of a finished job may take to appear on a network file system.
        pub search_time: f64 = 60.0 => duration().execution(),
    }
    flatten {
        /// Where stages run, and what their jobs ask for.
        pub place: Place,
        /// What single stages have of their own.
        pub overrides: Overrides,
    }
}

section! {
    /// Where a stage runs and what its job asks for: keys of `[executor]` that a stage may have of its own, in
    /// `[stages.NAME.executor]`. Nothing is asked of Slurm that is not written here.
    pub struct Place {
        /// Where stages run.
        pub kind: ExecutorKind = ExecutorKind::Local => execution(),
        /// Slurm: `--partition`.
        pub partition: String = String::new() => execution(),
        /// Slurm: `--account`.
        pub account: String = String::new() => execution(),
        /// Slurm: `--qos`.
        pub qos: String = String::new() => execution(),
        /// Slurm: `--time`, rounded up to seconds. A stage that needs longer goes on in another job.
        pub time: Option<f64> = None => duration().at_least(1.0).execution(),
        /// Slurm: `--mem`, rounded up to MiB.
        pub mem: Option<u64> = None => size().execution(),
        /// Slurm: `--mem-per-cpu`, rounded up to MiB.
        pub mem_per_cpu: Option<u64> = None => size().execution(),
        /// Slurm: `--mem-per-gpu`, rounded up to MiB.
        pub mem_per_gpu: Option<u64> = None => size().execution(),
        /// Slurm: `--cpus-per-task`, and so the CPU threads of the stage.
        pub cpus_per_task: Option<u32> = None => at_least(1.0).execution(),
        /// Slurm: `--gres`, such as `gpu:a100:1`.
        pub gres: String = String::new() => execution(),
        /// Slurm: `--gpus`, such as `1` or `a100:1`.
        pub gpus: String = String::new() => execution(),
        /// Slurm: `--gpus-per-node`.
        pub gpus_per_node: String = String::new() => execution(),
        /// Slurm: `--gpus-per-task`.
        pub gpus_per_task: String = String::new() => execution(),
        /// Slurm: `--constraint`.
        pub constraint: String = String::new() => execution(),
        /// Slurm: `--exclude`.
        pub exclude: String = String::new() => execution(),
        /// Slurm: more arguments of `sbatch`, each as one string: `"--reservation=night"`.
        pub sbatch_args: Vec<String> = Vec::new() => execution(),
        /// Slurm: how long before the end of its time a job is asked to write a checkpoint.
        pub grace: f64 = 60.0 => duration().at_least(1.0).execution(),
        /// Slurm: let Slurm itself put a preempted job back into its queue, instead of a new job.
        pub requeue: bool = false => execution(),
        /// Slurm: environment variables that jobs get from here, by name. A judge's `api_key_env` always goes along.
        pub export: Vec<String> = Vec::new() => execution(),
        /// Slurm: lines of shell before the stage, such as `module load cuda`.
        pub setup: Vec<String> = Vec::new() => free_text().execution(),
    }
}

choice! {
    /// Where stages run.
    pub enum ExecutorKind {
        /// As child processes of this machine.
        Local = "local",
        /// As Slurm jobs.
        Slurm = "slurm",
    }
}

/// Stages with a `[stages.NAME.executor]`, each with every key filled in from `[executor]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overrides {
    pub stages: BTreeMap<String, Place>,
}

/// It has no keys of its own in the file: they stand with the stages.
impl Section for Overrides {
    fn set(&mut self, _: &str, _: &Node, _: &mut Mistakes) -> bool {
        false
    }

    fn each(&self, _: &mut dyn FnMut(&Key, &dyn Value)) {}
}

impl Executor {
    /// Where a stage runs and what its job asks for.
    pub fn place(&self, stage: &str) -> &Place {
        self.overrides.stages.get(stage).unwrap_or(&self.place)
    }
}
