//! Ctrl-C and TERM, turned into [`Control`] levels.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::control::{Cause, Control, Level};

/// A driver that got TERM (a scheduler's time limit, a shutdown) does not wait for a second one.
const TERM_AFTER: Duration = Duration::from_secs(15);
/// From TERM to KILL.
const KILL_AFTER: Duration = Duration::from_secs(5);

/// Listens until the process ends. Each Ctrl-C raises the level by one; TERM does so too, and then goes
/// on by itself: TERM to the stages after 15 s, KILL 5 s later.
pub fn listen(control: Control) -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                Some(()) = interrupt.recv() => control.escalate(Cause::Interrupt),
                Some(()) = terminate.recv() => {
                    if control.level() == Level::Go {
                        tokio::spawn(insist(control.clone()));
                    }
                    control.escalate(Cause::Terminate);
                }
                else => return,
            }
        }
    });
    Ok(())
}

async fn insist(control: Control) {
    tokio::time::sleep(TERM_AFTER).await;
    end(&control, Cause::Terminate).await;
}

/// TERM to the stages now, KILL in a while.
pub(crate) async fn end(control: &Control, cause: Cause) {
    control.raise(Level::Term, cause);
    tokio::time::sleep(KILL_AFTER).await;
    control.raise(Level::Kill, cause);
}
