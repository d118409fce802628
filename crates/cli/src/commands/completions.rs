//! `pipeline completions SHELL`

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;
use crate::failure::exit;
use crate::printer::Printer;

pub fn completions(shell: Shell, printer: &Printer) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "pipeline", &mut script);
    printer.data(&String::from_utf8_lossy(&script));
    exit::OK
}
