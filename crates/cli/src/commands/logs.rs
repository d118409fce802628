//! `pipeline logs STAGE [-f]`: what a stage's newest attempt printed.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use engine::view::{self, RunView, StageView};
use store::Store;
use store::record::{RunState, StageState};

use super::status::no_runs;
use crate::args::Global;
use crate::failure::{Failure, exit};
use crate::printer::Printer;

const POLL: Duration = Duration::from_millis(300);

pub async fn logs(
    name: &str,
    follow: bool,
    run: Option<&str>,
    global: &Global,
    printer: &Printer,
) -> Result<u8, Failure> {
    let store = Store::open_existing(&global.state_dir).await?;
    let mut open: Option<(std::path::PathBuf, File)> = None;
    let mut printed = false;
    loop {
        let run = view::run_view(&store, run).await?.ok_or_else(no_runs)?;
        let stage = find(&run, name)?;
        // Seen as ended before the last read, so that nothing written at the end is missed.
        let more = follow && goes_on(&run, stage);
        match &stage.log {
            Some(path) => {
                // A retried stage goes on in the log of its next attempt.
                if open.as_ref().is_none_or(|(opened, _)| opened != path) {
                    open = Some((path.clone(), open_log(path)?));
                }
                if let Some((path, file)) = &mut open {
                    printed |= copy(path, file, printer)?;
                }
            }
            None if more => {}
            None => return Err(Failure::usage(format!("stage `{name}` has not been started yet"), "")),
        }
        if !more {
            if !printed {
                printer.note(format_args!("`{name}` ({}) has printed nothing", stage.stage.state));
            }
            return Ok(exit::OK);
        }
        tokio::time::sleep(POLL).await;
    }
}

fn find<'a>(run: &'a RunView, name: &str) -> Result<&'a StageView, Failure> {
    run.stages.iter().find(|view| view.stage.name == name).ok_or_else(|| {
        let names = || run.stages.iter().map(|view| view.stage.name.as_str());
        let help = match spec::nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("its stages are {}", names().collect::<Vec<_>>().join(", ")),
        };
        Failure::usage(format!("run {} has no stage `{name}`", run.run.id), help)
    })
}

/// Whether more can still be written.
fn goes_on(run: &RunView, stage: &StageView) -> bool {
    let waits = matches!(stage.stage.state, StageState::Pending | StageState::Running);
    run.run.state == RunState::Running && waits
}

fn open_log(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(Failure::io(format!("cannot read {}", path.display())))
}

/// Prints what is new; tells whether there was anything.
fn copy(path: &Path, file: &mut File, printer: &Printer) -> Result<bool, Failure> {
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(Failure::io(format!("cannot read {}", path.display())))?;
    printer.data(&String::from_utf8_lossy(&text));
    Ok(!text.is_empty())
}
