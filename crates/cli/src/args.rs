//! What can be typed.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use spec::Override;

/// Trains and judges language models with Hydra-RLHF, from one file.
///
/// A pipeline file names stages; `run` runs those whose result is not there yet, each in a process of its own.
/// Killed at any moment, `resume` (or the same `run` again) goes on from the last checkpoint.
#[derive(Debug, Parser)]
#[command(name = "pipeline", version, arg_required_else_help = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 ok, 1 a stage failed, 2 usage, 3 pipeline file, 4 locked by a live run, \
    5 no stage could be started, 6 state folder, 8 a gate refused, 130/143 stopped by a signal."
)]
pub struct Args {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, clap::Args)]
pub struct Global {
    /// Folder that holds results, checkpoints and the database
    #[arg(long, global = true, env = "PIPELINE_STATE_DIR", default_value = ".pipeline", value_name = "DIR")]
    pub state_dir: PathBuf,
    /// When to use colours; `auto` honours NO_COLOR
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub color: Colour,
    /// No progress, only results and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    Auto,
    Always,
    Never,
}

/// A pipeline file with changes.
#[derive(Debug, Clone, clap::Args)]
pub struct Source {
    /// The pipeline file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub changes: Changes,
}

/// A pipeline file that may be left out.
#[derive(Debug, Clone, clap::Args)]
pub struct OptionalSource {
    /// The pipeline file; that of the latest run if left out
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub changes: Changes,
}

/// Changes to the file for this command only.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Changes {
    /// Replace a value of the file, such as stages.ppo.kl_coef=0.05; can be given again
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<Override>,
}

/// Which stages of the pipeline.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Selected {
    /// Run this stage although its result is there, and all that read it; can be given again
    #[arg(long, value_name = "STAGE")]
    pub force: Vec<String>,
    /// This stage alone; what it needs must have been made. Can be given again
    #[arg(long, value_name = "STAGE")]
    pub only: Vec<String>,
    /// Run this stage and all that depends on it again, and nothing else that is not needed for that
    #[arg(long, value_name = "STAGE")]
    pub from: Vec<String>,
    /// This stage and what it needs, nothing beyond. Can be given again
    #[arg(long, value_name = "STAGE")]
    pub until: Vec<String>,
}

impl Selected {
    /// As planning takes it.
    pub fn selection(&self) -> plan::Selection {
        plan::Selection { only: self.only.clone(), from: self.from.clone(), until: self.until.clone() }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a pipeline: every stage whose result is not there yet
    Run {
        #[command(flatten)]
        source: Source,
        #[command(flatten)]
        selected: Selected,
        /// Print the outcome as JSON
        #[arg(long)]
        json: bool,
    },
    /// Go on with a run that was stopped or killed
    Resume {
        /// Id of the run, or the start or end of it; the latest unfinished one if left out
        run: Option<String>,
        /// Try again too what failed by its own fault or was refused by a gate
        #[arg(long)]
        retry_failed: bool,
        /// The run's process was on another machine, which cannot be seen from here, and is dead: you looked
        #[arg(long)]
        take_over: bool,
        /// Print the outcome as JSON
        #[arg(long)]
        json: bool,
    },
    /// Ask a running run to write checkpoints and stop; `resume` goes on from them
    Pause {
        /// Id of the run, or the start or end of it; the latest one if left out
        run: Option<String>,
    },
    /// Stop a run at once: its processes are ended, checkpoints that they have written stay
    Cancel {
        /// Id of the run, or the start or end of it; the latest one if left out
        run: Option<String>,
    },
    /// Show what `run` would run, and why
    Plan {
        #[command(flatten)]
        source: OptionalSource,
        #[command(flatten)]
        selected: Selected,
        /// Print as JSON, with fingerprints and their parts
        #[arg(long)]
        json: bool,
    },
    /// Show how far a run is
    Status {
        /// Id of the run, or the start or end of it; the latest one if left out
        run: Option<String>,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// List runs, newest first
    #[command(args_conflicts_with_subcommands = true)]
    Runs {
        #[command(subcommand)]
        action: Option<RunsAction>,
        /// At most so many
        #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
        limit: u32,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a stage printed
    Logs {
        stage: String,
        /// Wait for more until the stage ends
        #[arg(long, short)]
        follow: bool,
        /// Id of the run, or the start or end of it; the latest one if left out
        #[arg(long)]
        run: Option<String>,
    },
    /// Say why a stage would run again: what its result depends on, then and now
    Explain {
        stage: String,
        /// The pipeline file; that of the latest run if left out
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        changes: Changes,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Compare two runs: what their stages depend on, what came out, what it cost
    Diff {
        /// Id of a run, or the start or end of it
        #[arg(value_name = "RUN")]
        old: String,
        /// Id of the run to compare it with
        #[arg(value_name = "RUN")]
        new: String,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the graph of stages for other tools
    Graph {
        #[command(flatten)]
        source: OptionalSource,
        #[arg(long, value_enum, default_value_t = GraphFormat::Mermaid)]
        format: GraphFormat,
    },
    /// Check a pipeline file, and the files and folders it names
    Validate {
        #[command(flatten)]
        source: Source,
        /// Print mistakes as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what no kept run needs any more, or remove it
    ///
    /// A run that something alive works on is always kept, and so is every run whose checkpoints a kept one goes
    /// on from. With neither --keep-runs nor --older-than all runs are kept: only what no run points to goes.
    Gc {
        /// Remove it; without this nothing is changed
        #[arg(long)]
        force: bool,
        /// Keep the newest N runs; others go
        #[arg(long, value_name = "N")]
        keep_runs: Option<usize>,
        /// Keep runs that ended within this time, such as 12h or 7d; others go
        #[arg(long, value_name = "TIME", value_parser = crate::format::duration)]
        older_than: Option<std::time::Duration>,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Say what is wrong with the state folder, this machine and its driver, and what to do
    Doctor {
        /// Read every result, and compare the database's indexes with its tables
        #[arg(long)]
        deep: bool,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print completions for a shell
    Completions { shell: clap_complete::Shell },
    /// Run one attempt of a stage; started by `run`
    #[command(hide = true)]
    Worker { attempt_dir: PathBuf },
}

/// What can be done with runs.
#[derive(Debug, Clone, Subcommand)]
pub enum RunsAction {
    /// Forget a run; `gc --force` then removes its files
    Rm {
        /// Id of the run, or the start or end of it
        run: String,
    },
}

/// Form of the graph.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum GraphFormat {
    Mermaid,
    Dot,
}
