//! What a run is doing, on stderr: bars on a terminal, plain lines off one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::protocol::Event;
use engine::{Failure, Level, StageOutcome, Update};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use store::record::StageState;

use crate::format;
use crate::printer::Printer;

/// Off a terminal, a running stage says how far it is this often at most.
const EVERY: Duration = Duration::from_secs(5);

/// Shows the updates of a run.
pub struct Progress {
    printer: Printer,
    bars: MultiProgress,
    stages: BTreeMap<String, Stage>,
}

/// A running stage.
struct Stage {
    bar: ProgressBar,
    said: Instant,
    /// Step at which the present attempt was first heard of, and when.
    first: Option<(u64, Instant)>,
    /// Newest loss, for trainers whose progress says nothing itself.
    loss: Option<f64>,
    /// Tokens trained on or sampled since `first`.
    tokens: f64,
}

impl Progress {
    pub fn new(printer: Printer) -> Self {
        let visible = printer.terminal && !printer.quiet;
        let target =
            if visible { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() };
        Self { printer, bars: MultiProgress::with_draw_target(target), stages: BTreeMap::new() }
    }

    /// Shows one update.
    pub fn update(&mut self, update: Update) {
        match update {
            Update::RunStarted { run_id, decisions } => {
                let running = decisions.iter().filter(|decision| decision.runs()).count();
                let cached = decisions.len() - running;
                self.say(format!("run {run_id}: {running} to run, {cached} up to date"));
            }
            Update::StageWaiting { stage, owner } => {
                let word = self.printer.paint("waiting", "waiting");
                self.say(format!("{word} {stage}: another run makes its result ({owner})"));
            }
            Update::StageStarted { stage, attempt, device, resume_step, .. } => {
                let word = self.printer.paint("running", "running");
                let again = if attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
                let from = resume_step.map(|step| format!(", from step {step}")).unwrap_or_default();
                self.say(format!("{word} {stage} on {device}{again}{from}"));
                self.start(stage);
            }
            Update::StageAdopted { stage, attempt, .. } => {
                let word = self.printer.paint("running", "running");
                self.say(format!("{word} {stage}, attempt {attempt}: still at it from an earlier run"));
                self.start(stage);
            }
            Update::Notice(text) => self.say(format!("{} {text}", self.printer.paint("waiting", "notice:"))),
            Update::StageIs { stage, whereabouts } => {
                if let Some(whereabouts) = whereabouts {
                    self.say(format!("{} {stage}: {whereabouts}", self.printer.paint("running", "running")));
                }
            }
            Update::Worker { stage, event } => self.event(&stage, event),
            Update::StageRetrying { stage, message, delay } => {
                self.end(&stage);
                let word = self.printer.paint("retrying", "retrying");
                self.say(format!("{word} {stage} in {}: {message}", format::seconds(delay.as_secs_f64())));
            }
            Update::StageEnded(outcome) => {
                self.end(&outcome.stage);
                self.ended(&outcome);
            }
        }
    }

    /// Says what a signal has set off.
    pub fn stopping(&self, level: Level) {
        let text = match level {
            Level::Go => return,
            Level::Stop => "running stages write a checkpoint and stop; Ctrl-C again ends them at once",
            Level::Term => "ending running stages; their work since the last checkpoint is lost",
            Level::Kill => "killing running stages",
        };
        self.say(format!("{} {text}", self.printer.paint("stopped", "stopping")));
    }

    fn start(&mut self, name: String) {
        let now = Instant::now();
        let bar = self.bars.add(
            ProgressBar::new(0).with_prefix(name.clone()).with_style(style("{spinner} {prefix:<12} {msg}")),
        );
        bar.enable_steady_tick(Duration::from_millis(200));
        self.stages.insert(name, Stage { bar, said: now, first: None, loss: None, tokens: 0.0 });
    }

    fn event(&mut self, name: &str, event: Event) {
        match event {
            Event::Progress { step, total, unit, message } => {
                self.progress(name, step, total, &unit, &message)
            }
            Event::Metrics { values, .. } => {
                if let Some(stage) = self.stages.get_mut(name) {
                    stage.loss = values.get("loss").copied().or(stage.loss);
                    let tokens = values.get("tokens").or_else(|| values.get("response/tokens"));
                    stage.tokens += tokens.filter(|_| stage.first.is_some()).copied().unwrap_or_default();
                }
            }
            Event::Warning { message } => {
                let word = self.printer.paint("waiting", "warning");
                self.say(format!("{word} {name}: {message}"));
            }
            _ => {}
        }
    }

    fn progress(&mut self, name: &str, step: u64, total: u64, unit: &str, message: &str) {
        let Some(stage) = self.stages.get_mut(name) else { return };
        let now = Instant::now();
        let (first, since) = *stage.first.get_or_insert((step, now));
        let seconds = (now - since).as_secs_f64();
        let rate = if step > first && seconds > 0.0 { Some((step - first) as f64 / seconds) } else { None };
        let mut words = Vec::new();
        if !message.is_empty() {
            words.push(message.to_owned());
        } else if let Some(loss) = stage.loss {
            words.push(format!("loss {}", format::number(loss)));
        }
        if let Some(rate) = rate {
            words.push(match stage.tokens {
                0.0 => format!("{} {unit}/s", rounded(rate)),
                tokens => format!("{} tokens/s", rounded(tokens / seconds)),
            });
            if total > step {
                words.push(format!("ETA {}", format::seconds((total - step) as f64 / rate)));
            }
        }
        let text = words.join(" · ");
        if stage.bar.length() != Some(total) {
            stage.bar.set_length(total);
            stage.bar.set_style(style("{spinner} {prefix:<12} {bar:24} {pos}/{len} {msg}"));
        }
        stage.bar.set_position(step);
        stage.bar.set_message(format!("{unit} · {text}"));
        if !self.printer.terminal && now - stage.said >= EVERY {
            stage.said = now;
            self.say(format!("        {name} {step}/{total} {unit} · {text}"));
        }
    }

    fn end(&mut self, name: &str) {
        if let Some(stage) = self.stages.remove(name) {
            stage.bar.finish_and_clear();
            self.bars.remove(&stage.bar);
        }
    }

    fn ended(&self, outcome: &StageOutcome) {
        let state = outcome.state.as_str();
        let word = self.printer.paint(state, state);
        match outcome.state {
            StageState::Cached => {}
            StageState::Succeeded => {
                self.say(format!("{word} {} in {}", outcome.stage, format::seconds(outcome.seconds)));
            }
            _ => match &outcome.failure {
                Some(failure) => {
                    self.shout(format!("{word} {}: {}", outcome.stage, told(failure)));
                    if !failure.help.is_empty() {
                        self.shout(format!("  help: {}", failure.help));
                    }
                }
                None => self.say(format!("{word} {}", outcome.stage)),
            },
        }
    }

    /// A line above the bars, left out by quiet commands.
    fn say(&self, line: String) {
        if !self.printer.quiet {
            self.shout(line);
        }
    }

    /// A line above the bars.
    fn shout(&self, line: String) {
        self.bars.suspend(|| self.printer.warn(line));
    }

    /// Takes the bars off the screen.
    pub fn finish(mut self) {
        let names: Vec<_> = self.stages.keys().cloned().collect();
        for name in names {
            self.end(&name);
        }
    }
}

/// Code and message of a failure; what is skipped has no code.
pub fn told(failure: &Failure) -> String {
    if failure.code.is_empty() {
        failure.message.clone()
    } else {
        format!("{} {}", failure.code, failure.message)
    }
}

fn rounded(rate: f64) -> String {
    if rate >= 100.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
