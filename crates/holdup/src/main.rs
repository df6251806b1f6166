//! What the scheduler is holding up, what it costs and what fixes it.
//!
//! `main` reads as the data flow: arguments → command → exit code. The
//! commands are thin: they read the world, call an engine and print.

mod bundles;
mod cli;
mod commands;
mod output;
mod progress;
mod signals;
mod world;

use holdup_model::Problem;
use std::process::ExitCode;

fn main() -> ExitCode {
    if holdup_guest::init::is_first_process() {
        return commands::as_first_process();
    }
    let matches = match cli::command().try_get_matches() {
        Ok(matches) => matches,
        Err(e) => {
            output::command_line(&e);
            return ExitCode::from(if e.use_stderr() { 2 } else { 0 });
        }
    };
    start_log(matches.get_count("verbose"));
    match commands::dispatch(&matches) {
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

/// Logs go to stderr; silent unless asked for.
fn start_log(verbosity: u8) {
    let level = match verbosity {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    tracing_subscriber::fmt()
        .with_writer(|| output::Log)
        .with_ansi(false)
        .with_env_filter(level)
        .with_target(false)
        .init();
}
