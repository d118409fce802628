//! `pipeline`: from a dataset and a base model to a judged, aligned model.
//!
//! One file per command in [`commands`]; what a person sees goes through one [`printer`].

mod args;
mod commands;
mod failure;
mod format;
mod load;
mod outcome;
mod preflight;
mod printer;
mod progress;
mod session;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;
use crate::printer::Printer;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = Args::parse();
    let printer = Printer::new(&args.global);
    let done = commands::execute(args, &printer);
    match printer::unwritten().map_or(done, Err) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            printer.failure(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}
