//! The life of a worker process: `pipeline worker ATTEMPT_DIR`, one stage, one attempt.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use engine::protocol::{Event, FailureClass, PROTOCOL, Request, Usage, exit, file};
use model::HydraBackend;
use nix::sys::resource::{UsageWho, getrusage};
use spec::StageConfig;
use store::fault;
use train::Outcome;

use crate::context::{Context, Ending};
use crate::error::StageError;
use crate::events::EventLog;
use crate::recorder::Recorder;
use crate::result;

/// Runs the stage that `attempt_dir/request.json` asks for; returns the process's exit code
/// ([`engine::protocol::exit`]). Everything it has to say is in the attempt folder afterwards.
pub fn run_worker<B: HydraBackend>(attempt_dir: &Path, device: &B::Device) -> i32 {
    let started = Instant::now();
    let (request, mut events) = match open(attempt_dir) {
        Ok(opened) => opened,
        Err(error) => {
            eprintln!("{error}");
            return exit::FAILED;
        }
    };
    events.send(&Event::Started { nonce: request.nonce.clone(), pid: std::process::id() });
    fault::point("worker.started");
    let ending = attempt::<B>(attempt_dir, &request, device, started);
    let nonce = request.nonce;
    match ending {
        Ok(Outcome::Finished(summary)) => {
            events.send(&Event::Finished { nonce, summary });
            exit::FINISHED
        }
        Ok(Outcome::Interrupted { step }) => {
            events.send(&Event::Interrupted { nonce, step });
            exit::INTERRUPTED
        }
        Err(error) => fail(&mut events, nonce, &error),
    }
}

/// The life of a worker that cannot even begin, such as one whose device is not there: the attempt fails with
/// `error`. Returns the process's exit code.
pub fn refuse(attempt_dir: &Path, error: &StageError) -> i32 {
    match open(attempt_dir) {
        Ok((request, mut events)) => {
            events.send(&Event::Started { nonce: request.nonce.clone(), pid: std::process::id() });
            fail(&mut events, request.nonce, error)
        }
        Err(error) => {
            eprintln!("{error}");
            exit::FAILED
        }
    }
}

fn fail(events: &mut EventLog, nonce: String, error: &StageError) -> i32 {
    let class = error.class();
    let (code, help) = (error.code(), error.advice());
    // Some messages begin with their code.
    let message = chain(error);
    let message = message.strip_prefix(&format!("{code}: ")).unwrap_or(&message).to_owned();
    eprintln!("{code}: {message}");
    events.send(&Event::Failed { nonce, class, code, message, help });
    if class == FailureClass::Gate { exit::GATE } else { exit::FAILED }
}

fn open(attempt_dir: &Path) -> Result<(Request, EventLog), StageError> {
    let path = attempt_dir.join(file::REQUEST);
    let text = fs::read_to_string(&path).map_err(StageError::file("read", &path))?;
    let mut request: Request =
        serde_json::from_str(&text).map_err(|error| StageError::Request { problem: error.to_string() })?;
    if request.protocol != PROTOCOL {
        let problem = format!("it speaks protocol {}, this program {PROTOCOL}", request.protocol);
        return Err(StageError::Request { problem });
    }
    request.go_on_in(attempt_dir);
    Ok((request, EventLog::open(attempt_dir)?))
}

/// From the request to a sealed result.
fn attempt<B: HydraBackend>(
    attempt_dir: &Path,
    request: &Request,
    device: &B::Device,
    started: Instant,
) -> Result<Ending, StageError> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(&stop))
        .map_err(StageError::file("listen for signals in", attempt_dir))?;
    // Fails only when the pool exists already, as in tests.
    _ = rayon::ThreadPoolBuilder::new().num_threads(request.threads).build_global();

    let out = attempt_dir.join(file::OUT);
    if out.exists() {
        fs::remove_dir_all(&out).map_err(StageError::file("remove", &out))?;
    }
    fs::create_dir_all(&out).map_err(StageError::file("create", &out))?;
    let events = EventLog::open(attempt_dir)?;
    let keep = checkpoints_kept(&request.stage.config);
    let mut recorder = Recorder::new(attempt_dir, events, request, keep, stop)?;
    let mut context =
        Context::<B> { request, device, out: &out, recorder: &mut recorder, intact: Default::default() };

    let ending = catch_unwind(AssertUnwindSafe(|| dispatch(&mut context)))
        .unwrap_or_else(|panic| Err(StageError::Panic { message: panic_message(panic.as_ref()) }))?;
    if let Outcome::Finished(summary) = &ending {
        recorder.write_metrics(&out)?;
        result::write_json(&out.join("summary.json"), summary)?;
        fault::point("worker.finished");
        result::seal(attempt_dir, request, summary.clone(), usage(started))?;
        fault::point("worker.sealed");
    }
    Ok(ending)
}

fn dispatch<B: HydraBackend>(context: &mut Context<B>) -> Result<Ending, StageError> {
    match &context.request.stage.config {
        StageConfig::Pretrain(config) => crate::pretrain::run(config, context),
        StageConfig::Prepare(config) => crate::prepare::run(config, context),
        StageConfig::Sft(config) => crate::sft::run(config, context),
        StageConfig::Reward(config) => crate::reward::run(config, context),
        StageConfig::HydraSft(config) => crate::hydra_sft::run(config, context),
        StageConfig::RewardEval(config) => crate::reward_eval::run(config, context),
        StageConfig::Ppo(config) => crate::ppo::run(config, context),
        StageConfig::Generate(config) => crate::generate::run(config, context),
        StageConfig::Judge(config) => crate::judge::run(config, context),
        StageConfig::Rouge(config) => crate::rouge::run(config, context),
        StageConfig::Report(config) => crate::report::run(config, context),
    }
}

fn checkpoints_kept(config: &StageConfig) -> usize {
    match config {
        StageConfig::Pretrain(config) => config.training.save_total_limit,
        StageConfig::Sft(config) => config.training.save_total_limit,
        StageConfig::Reward(config) => config.training.save_total_limit,
        StageConfig::HydraSft(config) => config.training.save_total_limit,
        StageConfig::Ppo(config) => config.save_total_limit,
        _ => 1,
    }
}

fn usage(started: Instant) -> Usage {
    // Linux counts the resident set in KiB.
    let peak = getrusage(UsageWho::RUSAGE_SELF).map(|usage| usage.max_rss() as u64 * 1024).unwrap_or(0);
    Usage { seconds: started.elapsed().as_secs_f64(), peak_rss_bytes: peak }
}

/// The message with those of its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = error.source();
    }
    text
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".into())
}
