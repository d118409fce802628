//! Ctrl-C, TERM and HUP, turned into [`Control`] levels.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::control::{Cause, Control, Level};

/// A driver that got TERM (a scheduler's time limit, a shutdown) does not wait for a second one.
const TERM_AFTER: Duration = Duration::from_secs(15);
/// From TERM to KILL.
const KILL_AFTER: Duration = Duration::from_secs(5);

/// Listens until the process ends. Each Ctrl-C raises the level by one; TERM does so too, and then goes
/// on by itself: TERM to the stages after 15 s, KILL 5 s later. HUP, of a terminal that is gone, is taken as
/// TERM unless it is ignored (`nohup`).
pub fn listen(control: Control) -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) };
    tokio::spawn(async move {
        loop {
            let hung_up = async {
                match &mut hangup {
                    Some(signal) => signal.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(()) = interrupt.recv() => control.escalate(Cause::Interrupt),
                Some(()) = terminate.recv() => by_itself(&control),
                Some(()) = hung_up => by_itself(&control),
                else => return,
            }
        }
    });
    Ok(())
}

fn by_itself(control: &Control) {
    if control.level() == Level::Go {
        tokio::spawn(insist(control.clone()));
    }
    control.escalate(Cause::Terminate);
}

/// Whether this process was started with HUP ignored: bit 0 of the mask.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
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
