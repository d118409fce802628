//! The one owner of a run's state: starts what is ready, skips what is blocked, and ends the run.

use std::collections::HashMap;
use std::sync::Arc;

use store::record::{RunState, StageState};
use tokio::task::JoinSet;

use crate::context::Context;
use crate::control::{Cause, Level};
use crate::error::EngineError;
use crate::protocol::FailureClass;
use crate::schedule::{Blocked, Schedule};
use crate::slots::{Need, Slot, Slots};
use crate::stage::Job;
use crate::update::{Failure, RunOutcome, StageOutcome, Update};

/// Where a stage of the plan stands at the start, and how it is to run.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    pub outcome: StageOutcome,
    pub forced: bool,
    pub fresh: bool,
    /// An earlier driver of this run began on it, and what became of that is not known: a worker of it may
    /// still run, and has to be stopped if the run is.
    pub open: bool,
}

pub(crate) struct Dispatcher {
    context: Arc<Context>,
    schedule: Schedule,
    stages: Vec<Start>,
    slots: Slots,
    held: HashMap<usize, Slot>,
    tasks: JoinSet<(usize, Result<StageOutcome, EngineError>)>,
    fatal: Option<EngineError>,
}

impl Dispatcher {
    pub fn new(context: Context, stages: Vec<Start>, slots: Slots) -> Self {
        let need = |stage: &plan::PlannedStage| Need::of(stage, context.executors.kind(&stage.name));
        let needs = context.plan.stages.iter().map(need).collect();
        let states = stages.iter().map(|stage| stage.outcome.state).collect();
        let schedule = Schedule::new(&context.plan, states, needs);
        let (held, tasks) = (HashMap::new(), JoinSet::new());
        Self { context: Arc::new(context), schedule, stages, slots, held, tasks, fatal: None }
    }

    /// Runs until nothing more can be done.
    pub async fn run(mut self) -> Result<RunOutcome, EngineError> {
        let blocked = self.schedule.blocked_at_the_start();
        self.skip(blocked).await;
        loop {
            self.start_ready();
            match self.tasks.join_next().await {
                None => break,
                Some(Ok((stage, result))) => self.ended(stage, result).await,
                Some(Err(error)) => self.give_up(EngineError::Task(error.to_string())),
            }
        }
        self.finish().await
    }

    fn start_ready(&mut self) {
        let stopping = self.context.control.level() > Level::Go;
        while self.fatal.is_none() {
            let may = |at: usize| !stopping || self.stages[at].open;
            let Some((at, slot)) = self.schedule.start(may, |need| self.slots.take(need)) else { return };
            self.held.insert(at, slot.clone());
            let job = Job { at, slot, forced: self.stages[at].forced, fresh: self.stages[at].fresh };
            let context = Arc::clone(&self.context);
            self.tasks.spawn(async move { (at, context.run_stage(&job).await) });
        }
    }

    async fn skip(&mut self, blocked: Vec<Blocked>) {
        for Blocked { stage, by } in blocked {
            self.stages[stage].outcome.state = StageState::Skipped;
            let by = &self.stages[by].outcome;
            let message = format!("needs `{}`, which was {}", by.stage, past_tense(by.state));
            let (class, code, help) = (FailureClass::User, String::new(), String::new());
            let failure = Failure { class, code, message: message.clone(), help };
            let outcome = &mut self.stages[stage].outcome;
            outcome.failure = Some(failure);
            let outcome = outcome.clone();
            let run_id = &self.context.run_id;
            let stored =
                self.context.store.set_stage(run_id, &outcome.stage, StageState::Skipped, &message).await;
            if let Err(error) = stored {
                return self.give_up(error.into());
            }
            self.context.tell(Update::StageEnded(outcome));
        }
    }

    async fn ended(&mut self, at: usize, result: Result<StageOutcome, EngineError>) {
        if let Some(slot) = self.held.remove(&at) {
            self.slots.give_back(slot);
        }
        match result {
            Ok(outcome) => {
                let blocked = self.schedule.ended(at, outcome.state);
                self.stages[at].outcome = outcome.clone();
                self.context.tell(Update::StageEnded(outcome));
                self.skip(blocked).await;
            }
            Err(error) => {
                self.schedule.ended(at, StageState::Stopped);
                self.stages[at].outcome.state = StageState::Stopped;
                self.give_up(error);
            }
        }
    }

    /// The state folder cannot be relied on: nothing more is started, and what runs is asked to checkpoint
    /// and end. Its attempts stay open in the database; the next run finds out what became of them.
    fn give_up(&mut self, error: EngineError) {
        tracing::error!(%error, "the run cannot go on");
        self.context.control.raise(Level::Stop, Cause::Interrupt);
        self.fatal.get_or_insert(error);
    }

    async fn finish(self) -> Result<RunOutcome, EngineError> {
        if let Some(error) = self.fatal {
            return Err(error);
        }
        let context = &self.context;
        let state = run_state(self.schedule.states());
        // What is reported done must be recorded as done.
        let recorded = context.store.stages(&context.run_id).await?;
        for (row, &state) in recorded.iter().zip(self.schedule.states()) {
            if row.state.is_done() != state.is_done() {
                let (name, state) = (&row.name, row.state);
                return Err(EngineError::Task(format!("{name} is recorded as {state}")));
            }
        }
        context.store.finish_run(&context.run_id, state).await?;
        let stages = self.stages.into_iter().map(|s| s.outcome).collect();
        Ok(RunOutcome { run_id: context.run_id.clone(), state, stages, cause: context.control.cause() })
    }
}

fn past_tense(state: StageState) -> &'static str {
    match state {
        StageState::Refused => "refused",
        StageState::Skipped => "skipped",
        _ => "not made",
    }
}

/// A run is stopped if something is left to do, else as bad as its worst stage.
fn run_state(states: &[StageState]) -> RunState {
    let any = |wanted: &[StageState]| states.iter().any(|s| wanted.contains(s));
    if any(&[StageState::Stopped, StageState::Pending, StageState::Running]) {
        RunState::Stopped
    } else if any(&[StageState::Failed]) {
        RunState::Failed
    } else if any(&[StageState::Refused, StageState::Skipped]) {
        RunState::Refused
    } else {
        RunState::Succeeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StageState::{Cached, Failed, Pending, Refused, Skipped, Stopped, Succeeded};

    #[test]
    fn e134_a_run_is_as_bad_as_its_worst_stage() {
        assert_eq!(run_state(&[Succeeded, Cached]), RunState::Succeeded);
        assert_eq!(run_state(&[Succeeded, Refused, Skipped]), RunState::Refused);
        assert_eq!(run_state(&[Failed, Refused, Skipped]), RunState::Failed);
        assert_eq!(run_state(&[Failed, Stopped]), RunState::Stopped);
        assert_eq!(run_state(&[Succeeded, Pending]), RunState::Stopped);
        assert_eq!(run_state(&[]), RunState::Succeeded);
    }
}
