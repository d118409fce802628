//! Development tasks: `cargo xtask ci` is everything that CI checks, `cargo xtask sizes` the length rule alone.

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
    /// Refuse source files over 800 lines, name those over 500.
    Sizes,
}

fn main() -> Result<()> {
    match Args::parse().task {
        Task::Ci => ci(),
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

fn cargo(arguments: &[&str]) -> Result<()> {
    println!("ci: cargo {}", arguments.join(" "));
    let status = Command::new(env!("CARGO")).args(arguments).status().context("cargo did not start")?;
    if !status.success() {
        bail!("`cargo {}` failed", arguments.join(" "));
    }
    Ok(())
}
