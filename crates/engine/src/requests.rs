//! What `pipeline pause` and `pipeline cancel` ask of a run, through the database: the process that carries
//! the run out may be in another container or on another machine.

use std::time::Duration;

use store::Store;
use store::record::Request;

use crate::control::{Cause, Control, Level};
use crate::signals;

/// How often requests are looked for.
const EVERY: Duration = Duration::from_millis(500);

/// Raises the control's level as requested; ends with the run.
pub(crate) async fn follow(store: Store, run_id: String, control: Control) {
    loop {
        tokio::time::sleep(EVERY).await;
        match store.asked(&run_id).await {
            Ok(None) => {}
            Ok(Some(request)) => obey(request, &control).await,
            // The database is needed for more than this; whoever else reads it will say so.
            Err(error) => tracing::warn!(%error, "requests cannot be read"),
        }
    }
}

/// Raises the level, further and further if it has to be.
pub(crate) async fn obey(request: Request, control: &Control) {
    match request {
        Request::Pause => control.raise(Level::Stop, Cause::Request),
        Request::Cancel => signals::end(control, Cause::Request).await,
    }
}
