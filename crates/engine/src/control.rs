//! Stopping a run, harder each time: checkpoint and stop, TERM, KILL.

use tokio::sync::watch;

/// How hard a run is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Not at all.
    #[default]
    Go,
    /// Nothing new is started; running stages are asked to checkpoint and end.
    Stop,
    /// TERM to every process of a running stage.
    Term,
    /// KILL to every process of a running stage.
    Kill,
}

/// What made the run stop, which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cause {
    /// Ctrl-C: 130.
    #[default]
    Interrupt,
    /// TERM: 143.
    Terminate,
    /// `pipeline pause` or `pipeline cancel`: 130.
    Request,
}

/// A handle that stops an engine's run; clones act on the same run.
#[derive(Debug, Clone)]
pub struct Control {
    state: watch::Sender<(Level, Cause)>,
}

impl Default for Control {
    fn default() -> Self {
        Self { state: watch::Sender::new(Default::default()) }
    }
}

impl Control {
    /// Raises the level; it never falls. The first cause stays.
    pub fn raise(&self, level: Level, cause: Cause) {
        self.state.send_if_modified(|state| {
            if level <= state.0 {
                return false;
            }
            *state = (level, if state.0 == Level::Go { cause } else { state.1 });
            true
        });
    }

    /// Raises the level by one.
    pub fn escalate(&self, cause: Cause) {
        let next = match self.level() {
            Level::Go => Level::Stop,
            Level::Stop => Level::Term,
            Level::Term | Level::Kill => Level::Kill,
        };
        self.raise(next, cause);
    }

    pub fn level(&self) -> Level {
        self.state.borrow().0
    }

    pub fn cause(&self) -> Cause {
        self.state.borrow().1
    }

    /// Returns once the level is above `seen`.
    pub async fn above(&self, seen: Level) {
        let mut receiver = self.state.subscribe();
        // The sender lives as long as `self`, so this cannot fail.
        let _ = receiver.wait_for(|state| state.0 > seen).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_level_only_rises_and_the_first_cause_stays() {
        let control = Control::default();
        control.above(Level::Go).await_not_yet().await;
        control.escalate(Cause::Terminate);
        control.above(Level::Go).await;
        control.raise(Level::Kill, Cause::Interrupt);
        control.raise(Level::Stop, Cause::Interrupt);
        assert_eq!((control.level(), control.cause()), (Level::Kill, Cause::Terminate));
    }

    trait NotYet: Future + Sized {
        async fn await_not_yet(self) {
            assert!(tokio::time::timeout(std::time::Duration::from_millis(5), self).await.is_err());
        }
    }
    impl<F: Future> NotYet for F {}
}
