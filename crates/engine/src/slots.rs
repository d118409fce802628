//! What stages run on: computing slots with their share of threads, and devices.

use plan::PlannedStage;
use spec::Device;

/// What a running stage holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// `cpu` or `cuda:0`.
    pub device: String,
    /// 0: what its job is given.
    pub threads: usize,
    light: bool,
    job: bool,
    memory: u64,
}

/// Free and taken slots.
#[derive(Debug)]
pub struct Slots {
    free: usize,
    light: usize,
    threads: usize,
    /// Bytes.
    memory: u64,
    accelerators: Vec<String>,
    busy: Vec<String>,
    jobs: usize,
}

/// What a stage asks for. Stages that ask for the same are served in the plan's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    /// It runs as a job elsewhere, and takes nothing of this machine.
    pub job: bool,
    /// It computes little and gets a thread of its own.
    pub light: bool,
    pub device: Device,
    /// Bytes; 0 = not said.
    pub memory: u64,
}

impl Need {
    pub fn of(stage: &PlannedStage, executor: spec::ExecutorKind) -> Self {
        let job = executor == spec::ExecutorKind::Slurm;
        // A job's memory is Slurm's affair.
        let memory = if job { 0 } else { stage.memory };
        Self { job, light: is_light(&stage.kind), device: stage.device, memory }
    }
}

/// Bytes of memory that this process may use: the machine's, or less where a control group says so.
pub(crate) fn machine_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB"));
    let total = total.and_then(|kib| kib.trim().parse::<u64>().ok()).map_or(u64::MAX, |kib| kib * 1024);
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    limit.and_then(|text| text.trim().parse().ok()).map_or(total, |limit: u64| limit.min(total))
}

/// Kinds that read and write text and leave the computing to others.
fn is_light(kind: &str) -> bool {
    matches!(kind, "prepare" | "rouge" | "report")
}

impl Slots {
    /// `parallel`: stages that compute at once; 0 = one, or one for each accelerator. `cpus`: threads they
    /// share; 0 = all. `memory`: bytes shared by the stages that ask for some.
    pub fn new(parallel: usize, cpus: usize, memory: u64, accelerators: &[String]) -> Self {
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        let cpus = if cpus == 0 { all } else { cpus };
        let parallel = if parallel == 0 { accelerators.len().max(1) } else { parallel };
        Self {
            free: parallel,
            light: cpus,
            threads: (cpus / parallel).max(1),
            memory,
            accelerators: accelerators.to_vec(),
            busy: Vec::new(),
            jobs: usize::MAX,
        }
    }

    /// Limits jobs elsewhere.
    pub fn with_jobs(self, jobs: usize) -> Self {
        Self { jobs, ..self }
    }

    /// Takes what is needed, if it is free now.
    pub fn take(&mut self, need: &Need) -> Option<Slot> {
        if need.job {
            self.jobs = self.jobs.checked_sub(1)?;
            // Which device `auto` is, the job's node knows.
            let device = need.device.to_string();
            return Some(Slot { device, threads: 0, light: false, job: true, memory: 0 });
        }
        let memory = self.memory.checked_sub(need.memory)?;
        let slot = if need.light {
            self.light = self.light.checked_sub(1)?;
            Slot { device: "cpu".into(), threads: 1, light: true, job: false, memory: need.memory }
        } else {
            let device = self.device(need.device).filter(|_| self.free > 0)?;
            self.free -= 1;
            if device != "cpu" {
                self.busy.push(device.clone());
            }
            Slot { device, threads: self.threads, light: false, job: false, memory: need.memory }
        };
        self.memory = memory;
        Some(slot)
    }

    /// Gives back what [`Slots::take`] gave.
    pub fn give_back(&mut self, slot: Slot) {
        if slot.job {
            self.jobs += 1;
            return;
        }
        self.memory += slot.memory;
        if slot.light {
            self.light += 1;
            return;
        }
        self.free += 1;
        if let Some(at) = self.busy.iter().position(|d| *d == slot.device) {
            self.busy.swap_remove(at);
        }
    }

    fn device(&self, wanted: Device) -> Option<String> {
        let is_free = |device: &String| !self.busy.contains(device);
        match wanted {
            Device::Cpu => Some("cpu".into()),
            Device::Cuda(number) => Some(format!("cuda:{number}")).filter(is_free),
            Device::Auto if self.accelerators.is_empty() => Some("cpu".into()),
            Device::Auto => self.accelerators.iter().find(|d| is_free(d)).cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(slots: &mut Slots, kind: &str, device: Device) -> Option<Slot> {
        slots.take(&Need { job: false, light: is_light(kind), device, memory: 0 })
    }

    #[test]
    fn one_computing_stage_at_a_time_by_default_and_text_beside_it() {
        let mut slots = Slots::new(0, 4, 0, &[]);
        let ppo = take(&mut slots, "ppo", Device::Auto).unwrap();
        assert_eq!((ppo.device.as_str(), ppo.threads), ("cpu", 4));
        assert_eq!(take(&mut slots, "sft", Device::Cpu), None);
        let rouge = take(&mut slots, "rouge", Device::Auto).unwrap();
        slots.give_back(rouge);
        slots.give_back(ppo);
        assert!(take(&mut slots, "sft", Device::Cpu).is_some());
    }

    #[test]
    fn jobs_take_nothing_of_this_machine_but_are_counted() {
        let mut slots = Slots::new(1, 4, 0, &[]).with_jobs(2);
        let need = Need { job: true, light: false, device: Device::Auto, memory: 0 };
        let job = slots.take(&need).unwrap();
        assert_eq!((job.device.as_str(), job.threads), ("auto", 0));
        assert!(slots.take(&Need { device: Device::Cuda(1), ..need }).is_some());
        assert_eq!(slots.take(&need), None);
        assert!(take(&mut slots, "ppo", Device::Cpu).is_some());
        slots.give_back(job);
        assert!(slots.take(&need).is_some());
    }

    #[test]
    fn threads_are_shared() {
        let mut slots = Slots::new(2, 5, 0, &[]);
        assert_eq!(take(&mut slots, "ppo", Device::Cpu).unwrap().threads, 2);
        assert_eq!(take(&mut slots, "ppo", Device::Cpu).unwrap().threads, 2);
        assert_eq!(take(&mut slots, "ppo", Device::Cpu), None);
    }

    #[test]
    fn memory_is_shared_by_those_that_ask_for_it() {
        let need = |memory| Need { job: false, light: false, device: Device::Cpu, memory };
        let mut slots = Slots::new(3, 3, 10, &[]);
        let first = slots.take(&need(6)).unwrap();
        assert_eq!(slots.take(&need(6)), None);
        assert!(slots.take(&need(0)).is_some(), "it asks for none");
        slots.give_back(first);
        assert!(slots.take(&need(6)).is_some());
        assert!(machine_memory() > 1 << 20);
    }

    #[test]
    fn a_device_has_one_stage() {
        let mut slots = Slots::new(0, 8, 0, &["cuda:0".into(), "cuda:1".into()]);
        let first = take(&mut slots, "ppo", Device::Cuda(1)).unwrap();
        assert_eq!(take(&mut slots, "ppo", Device::Cuda(1)), None);
        let second = take(&mut slots, "ppo", Device::Auto).unwrap();
        assert_eq!(second.device, "cuda:0");
        slots.give_back(first);
        assert_eq!(take(&mut slots, "ppo", Device::Auto).unwrap().device, "cuda:1");
    }
}
