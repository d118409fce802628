//! Development tasks: `cargo xtask ci` is everything that CI checks, `cargo xtask sizes` the length
//! rule alone, `cargo xtask soak` kills and fills the disk for as long as wanted.

mod sizes;

use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Development tasks of hydra-pipeline")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Format, file sizes, lints, the CUDA feature, tests, doc tests.
    Ci,
    /// Kill driver, worker or both at every point, and fill the disk at every point, on the real binary.
    Soak {
        /// How often; each round has another seed.
        #[arg(long, default_value_t = 1)]
        rounds: u64,
        /// Seed of the first round.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Refuse source files over 800 lines, name those over 500.
    Sizes,
}

fn main() -> Result<()> {
    match Args::parse().task {
        Task::Ci => ci(),
        Task::Soak { rounds, seed } => soak(rounds, seed),
        Task::Sizes => sizes::check(),
    }
}

/// Cheap checks first; the first failure ends it.
fn ci() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    sizes::check()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    // Compiles the CUDA backend without a toolkit or a GPU.
    cargo(&["check", "-p", "cli", "--features", "cuda"])?;
    cargo(&["test", "--workspace"])?;
    println!("ci: all green");
    Ok(())
}

/// The ignored tests of the package `e2e`, round after round; the first violation ends it.
fn soak(rounds: u64, seed: u64) -> Result<()> {
    for round in 0..rounds {
        let seed = seed.wrapping_add(round);
        println!("soak: round {} of {rounds}, seed {seed}", round + 1);
        let mut command = Command::new(env!("CARGO"));
        command.args(["test", "--quiet", "--package", "e2e", "--test", "kills", "--test", "disk", "--"]);
        command.args(["--ignored", "--nocapture"]).env("PIPELINE_SOAK_SEED", seed.to_string());
        if !command.status().context("cargo did not start")?.success() {
            bail!("round {} failed; `cargo xtask soak --seed {seed}` repeats it", round + 1);
        }
    }
    println!("soak: {rounds} rounds without a violation");
    Ok(())
}

fn cargo(arguments: &[&str]) -> Result<()> {
    println!("ci: cargo {}", arguments.join(" "));
    let status = Command::new(env!("CARGO")).args(arguments).status().context("cargo did not start")?;
    if !status.success() {
        bail!("`cargo {}` failed", arguments.join(" "));
    }
    Ok(())
}
