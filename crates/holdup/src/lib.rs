//! The program `holdup`: arguments → command → exit code. The commands are thin: they read the host and files, call an
//! engine and print; each stands in `commands` with its arguments. Only this crate prints (`output`, `progress`).
//!
//! Not here: what a plan means (`holdup-plan`), how trials run (`holdup-target`), what is found (`holdup-analysis`) and how
//! it reads (`holdup-report`). Start with `commands/run.rs`; `design.rs` turns a command line into a plan.

mod bundles;
mod cli;
mod cluster;
mod commands;
mod design;
mod output;
mod progress;
mod repeated;
mod signals;
mod world;

use clap::{CommandFactory as _, Parser as _};
use holdup_model::Problem;
use std::process::ExitCode;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    if holdup_guest::init::is_first_process() {
        return commands::as_first_process();
    }
    let words = repeated::together(cli::Cli::command, std::env::args_os().collect());
    let cli = match cli::Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(e) => {
            output::command_line(&e);
            return ExitCode::from(if e.use_stderr() { 2 } else { 0 });
        }
    };
    match commands::run(&cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let problem = error.downcast_ref::<Problem>();
            match problem {
                Some(problem) => output::problem(problem),
                None => output::error(&format!("{error:#}")),
            }
            ExitCode::from(problem.map_or(70, |p| p.kind.exit_code()))
        }
    }
}

/// The command line, of which man pages and completions are made (examples/pages.rs).
pub fn command_line() -> clap::Command {
    cli::Cli::command()
}
