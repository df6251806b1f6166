//! The one place where holdup writes to the terminal: data on stdout, the rest on stderr.

use holdup_model::{Problem, ProblemKind};
use std::io::{self, IsTerminal, Write};

/// Writes data. A reader that went away (`| head`) is no error.
///
/// # Errors
/// When stdout cannot be written for another reason.
pub(crate) fn data(text: &str) -> Result<(), Problem> {
    let mut out = io::stdout().lock();
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(newline.as_bytes())).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(Problem::new(ProblemKind::Host, "cannot write the output", e.to_string())),
    }
}

/// Writes one line for people.
pub(crate) fn say(line: &str) {
    let _nobody_listens = writeln!(io::stderr().lock(), "{line}");
}

/// Writes an error: `error: what: why`, then its hint.
pub(crate) fn error(text: &str) {
    say(&format!("error: {text}"));
}

/// Whether stdout wants colour: a terminal, and neither NO_COLOR nor a dumb terminal.
pub(crate) fn wants_color() -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|v| v.is_empty());
    unset("NO_COLOR") && std::env::var("TERM").map_or(true, |t| t != "dumb") && io::stdout().is_terminal()
}

/// The width of the terminal, or 100 columns into a pipe or a file.
pub(crate) fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    columns.or_else(terminal_width).unwrap_or(100).clamp(60, 200)
}

fn terminal_width() -> Option<usize> {
    rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
