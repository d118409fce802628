//! The door: run a plan, go on with a run, say what would run.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use plan::{Decision, Links, Plan, Reason};
use spec::Executor as ExecutorConfig;
use store::record::{Attempt, Request, Stage, StageState};
use store::{DecidedStage, FileMemo, NewRun, Store};

use crate::context::Context;
use crate::control::{Cause, Control, Level};
use crate::dispatch::{Dispatcher, Start};
use crate::error::EngineError;
use crate::executor::{Executor, Executors, Local, Slurm};
use crate::options::{Options, Retry};
use crate::past::Known;
use crate::protocol::FailureClass;
use crate::requests;
use crate::slots::{Slots, machine_memory};
use crate::update::{Failure, RunOutcome, StageOutcome, Update, Updates};

/// Carries out plans in one state folder, one at a time.
#[derive(Clone)]
pub struct Engine {
    store: Store,
    options: Options,
    control: Control,
    executor: Option<Arc<dyn Executor>>,
}

/// What a resumption asks for.
#[derive(Debug, Clone, Default)]
pub struct Resume {
    /// Stages to run even if their artifacts are there.
    pub force: BTreeSet<String>,
    /// Try again what failed by the user's own fault or was refused by a gate; else it stays failed.
    pub retry_failed: bool,
    /// What the pipeline file says by now. Keys that change no result are taken from it.
    pub now: Option<Plan>,
    /// Its process is on a machine that cannot be seen from here, and somebody has looked: it is dead.
    pub take_over: bool,
}

impl Engine {
    pub fn new(store: Store, options: Options) -> Self {
        Self { store, options, control: Control::default(), executor: None }
    }

    /// Uses this executor for stages on this machine.
    pub fn with_executor(self, executor: Arc<dyn Executor>) -> Self {
        Self { executor: Some(executor), ..self }
    }

    /// Stops the run that this engine carries out; see [`signals::listen`](crate::signals::listen).
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Runs a plan as a new run. `source`: the pipeline file as it was named. Whatever has been made before,
    /// by any run, is used; a stage that another run began goes on from its last checkpoint.
    pub async fn run(
        &self,
        plan: &Plan,
        source: &str,
        force: &BTreeSet<String>,
        updates: Updates,
    ) -> Result<RunOutcome, EngineError> {
        check_names(plan, force)?;
        let (decisions, known) = decide(&self.store, plan, force).await?;
        let stages: Vec<Start> =
            plan.stages.iter().zip(&decisions).map(|(stage, d)| start(stage, d, &known, true)).collect();
        if decisions.iter().any(Decision::runs) {
            self.check_disk(plan)?;
            self.check_memory(plan)?;
        }
        let text =
            serde_json::to_string(plan).map_err(|source| EngineError::Json { what: "a plan", source })?;
        let new = NewRun {
            pipeline: &plan.name,
            source,
            spec_hash: &plan.spec_hash,
            plan: &text,
            cwd: &self.options.cwd,
            command: &self.options.command,
        };
        let run_id = self.store.create_run(new, &rows(plan, &decisions, &stages)?).await?;
        self.dispatch(plan.clone(), run_id, decisions, stages, updates).await
    }

    /// Goes on with a run, with the plan it was started with. Its owner must be dead or done.
    pub async fn resume(
        &self,
        run_id: &str,
        resume: &Resume,
        updates: Updates,
    ) -> Result<RunOutcome, EngineError> {
        let run = self.store.run(run_id).await?;
        if resume.take_over {
            self.store.put_out_unseen(&store::lease::run_lease(&run.id)).await?;
        }
        self.store.claim_run(&run.id).await?;
        let mut plan: Plan = serde_json::from_str(&run.plan)
            .map_err(|source| EngineError::OldPlan { run: run.id.clone(), source })?;
        if let Some(now) = &resume.now {
            plan.take_execution_keys(now);
        }
        check_names(&plan, &resume.force)?;
        self.check_memory(&plan)?;
        let earlier = self.store.stages(&run.id).await?;
        let unfinished = earlier.iter().filter(|s| s.forced && !s.state.is_done()).map(|s| s.name.clone());
        let persisted: BTreeSet<String> = unfinished.collect();
        let force = &persisted | &resume.force;
        let (decisions, known) = decide(&self.store, &plan, &force).await?;
        let attempts = self.store.attempts(&run.id).await?;
        let mut stages = Vec::with_capacity(decisions.len());
        for (stage, decision) in plan.stages.iter().zip(&decisions) {
            let mut start = start(stage, decision, &known, !persisted.contains(&stage.name));
            start.open = attempts.iter().any(|a| a.stage == stage.name && a.state.is_open());
            let before = earlier.iter().find(|s| s.name == stage.name);
            if decision.runs()
                && !resume.retry_failed
                && let Some((state, failure)) = before.and_then(|b| settled(b, &attempts))
            {
                start.outcome.state = state;
                start.outcome.failure = Some(failure);
            }
            stages.push(start);
        }
        let rows = rows(&plan, &decisions, &stages)?;
        self.store.resume_run(&run.id, &self.options.command, &rows).await?;
        self.dispatch(plan, run.id, decisions, stages, updates).await
    }

    /// Stops what still goes on of a run whose owner is dead: goes on with it, but starts nothing.
    pub async fn stop(
        &self,
        run_id: &str,
        request: Request,
        updates: Updates,
    ) -> Result<RunOutcome, EngineError> {
        let control = self.control.clone();
        control.raise(Level::Stop, Cause::Request);
        let pressing = tokio::spawn(async move { requests::obey(request, &control).await });
        let outcome = self.resume(run_id, &Resume::default(), updates).await;
        pressing.abort();
        outcome
    }

    async fn dispatch(
        &self,
        plan: Plan,
        run_id: String,
        decisions: Vec<Decision>,
        stages: Vec<Start>,
        updates: Updates,
    ) -> Result<RunOutcome, EngineError> {
        let config = self.executor_config(&plan);
        let slots = Slots::new(config.max_parallel, config.cpus, memory(&config), &self.options.accelerators)
            .with_jobs(config.max_jobs);
        let (worker, cwd) = (self.options.worker.clone(), self.options.cwd.clone());
        let slurm = Slurm::new(config.clone(), worker.clone(), cwd.clone(), &plan, updates.clone());
        let local = self.executor.clone().unwrap_or_else(|| Arc::new(Local::new(worker, cwd.clone())));
        let context = Context {
            store: self.store.clone(),
            executors: Executors::new(config.clone(), local, slurm),
            retry: Retry::new(&config),
            max_log_size: config.max_log_size,
            cwd,
            run_id: run_id.clone(),
            links: Links::new(&plan),
            memo: Arc::new(Mutex::new(FileMemo::load(&self.store).await?)),
            plan,
            updates,
            control: self.control.clone(),
        };
        context.tell(Update::RunStarted { run_id, decisions });
        let requests = requests::follow(self.store.clone(), context.run_id.clone(), self.control.clone());
        let requests = tokio::spawn(requests);
        let outcome = Dispatcher::new(context, stages, slots).run().await;
        requests.abort();
        outcome
    }

    fn executor_config(&self, plan: &Plan) -> ExecutorConfig {
        self.options.executor.clone().unwrap_or_else(|| plan.executor.clone())
    }

    /// No stage asks for more than there is: it would wait for ever.
    fn check_memory(&self, plan: &Plan) -> Result<(), EngineError> {
        let config = self.executor_config(plan);
        let there = memory(&config);
        let here = |stage: &plan::PlannedStage| config.place(&stage.name).kind == spec::ExecutorKind::Local;
        match plan.stages.iter().find(|stage| here(stage) && stage.memory > there) {
            Some(stage) => {
                let (stage, wanted) = (stage.name.clone(), stage.memory);
                Err(EngineError::TooMuchMemory { stage, wanted, there })
            }
            None => Ok(()),
        }
    }

    fn check_disk(&self, plan: &Plan) -> Result<(), EngineError> {
        let path = self.store.layout().root().to_owned();
        let wanted = self.executor_config(plan).min_free_disk;
        // A file system that does not say is not asked again.
        let Ok(stat) = nix::sys::statvfs::statvfs(&path) else { return Ok(()) };
        let free = stat.blocks_available().saturating_mul(stat.fragment_size());
        if free < wanted { Err(EngineError::LowDisk { path, free, wanted }) } else { Ok(()) }
    }
}

/// What would run and why, in the plan's order.
pub async fn decisions(
    store: &Store,
    plan: &Plan,
    force: &BTreeSet<String>,
) -> Result<Vec<Decision>, EngineError> {
    check_names(plan, force)?;
    Ok(decide(store, plan, force).await?.0)
}

async fn decide(
    store: &Store,
    plan: &Plan,
    force: &BTreeSet<String>,
) -> Result<(Vec<Decision>, Known), EngineError> {
    let known = Known::load(store, plan).await?;
    Ok((plan::decide(plan, &known, force), known))
}

/// What stages that ask for memory share.
fn memory(config: &ExecutorConfig) -> u64 {
    if config.memory == 0 { machine_memory() } else { config.memory }
}

fn check_names(plan: &Plan, force: &BTreeSet<String>) -> Result<(), EngineError> {
    match force.iter().find(|name| plan.stage(name).is_none()) {
        Some(name) => Err(EngineError::UnknownStage(name.clone())),
        None => Ok(()),
    }
}

/// A stage that runs although its artifact is there is forced: it must not be taken for done when the run
/// is interrupted. `fresh`: this is the first time that this run forces it.
fn start(stage: &plan::PlannedStage, decision: &Decision, known: &Known, fresh: bool) -> Start {
    let forced = decision.runs() && known.is_present(&stage.fingerprint);
    let outcome = StageOutcome {
        stage: stage.name.clone(),
        kind: stage.kind.clone(),
        state: if decision.runs() { StageState::Pending } else { StageState::Cached },
        seconds: if decision.runs() { 0.0 } else { known.seconds(&stage.fingerprint) },
        failure: None,
    };
    Start { outcome, forced, fresh: forced && fresh, open: false }
}

fn rows<'a>(
    plan: &'a Plan,
    decisions: &[Decision],
    stages: &[Start],
) -> Result<Vec<DecidedStage<'a>>, EngineError> {
    let row = |((stage, decision), start): ((&'a plan::PlannedStage, &Decision), &Start)| {
        let none: &[Reason] = &[];
        let reasons = match &decision.action {
            plan::Action::Run { reasons } => reasons.as_slice(),
            plan::Action::Cached => none,
        };
        let reasons =
            serde_json::to_string(reasons).map_err(|source| EngineError::Json { what: "reasons", source })?;
        Ok(DecidedStage {
            name: &stage.name,
            kind: &stage.kind,
            fingerprint: stage.fingerprint.as_str(),
            state: start.outcome.state,
            reasons,
            forced: start.forced,
        })
    };
    plan.stages.iter().zip(decisions).zip(stages).map(row).collect()
}

/// A failure that going on will not mend: the user's own, or a gate's. Infrastructure failures are tried again.
fn settled(stage: &Stage, attempts: &[Attempt]) -> Option<(StageState, Failure)> {
    if !matches!(stage.state, StageState::Failed | StageState::Refused) {
        return None;
    }
    let last = attempts.iter().rfind(|a| a.stage == stage.name)?;
    let class = match last.class.as_deref() {
        Some("user") => FailureClass::User,
        Some("gate") => FailureClass::Gate,
        Some("internal") => FailureClass::Internal,
        _ => return None,
    };
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let help = format!("{} `--retry-failed` tries again", text(&last.help)).trim_start().to_owned();
    let failure = Failure { class, code: text(&last.code), message: text(&last.message), help };
    Some((stage.state, failure))
}
