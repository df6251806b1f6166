//! All output to the terminal: data on stdout, the rest on stderr.

use holdup_model::foreign::{line, lines, printed};
use holdup_model::{Problem, ProblemKind};
use holdup_report::TerminalOptions;
use std::io::{self, IsTerminal, Write};

/// Writes what people read, or a JSON document, without what could command the terminal. Into a pipe too: what reads
/// it (`less -R`, a log) passes it on. A reader that went away (`| head`) is no error.
pub(crate) fn data(text: &str) -> Result<(), Problem> {
    write(&printed(text))
}

/// Writes what other programs read, exactly as it is; on a terminal as [`data`] does.
pub(crate) fn exact(text: &str) -> Result<(), Problem> {
    if io::stdout().is_terminal() { data(text) } else { write(text) }
}

/// As [`exact`], of one line of many. `false` when nothing reads them any more.
pub(crate) fn streamed(line: &str) -> Result<bool, Problem> {
    if io::stdout().is_terminal() { data(line).map(|()| true) } else { all(&[line.as_bytes(), b"\n"]) }
}

fn write(text: &str) -> Result<(), Problem> {
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    all(&[text.as_bytes(), newline.as_bytes()]).map(drop)
}

/// Writes what is no text.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), Problem> {
    all(&[bytes]).map(drop)
}

/// `false` when the other end of a pipe is closed.
fn all(parts: &[&[u8]]) -> Result<bool, Problem> {
    let mut out = io::stdout().lock();
    match parts.iter().try_for_each(|part| out.write_all(part)).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Problem::new(ProblemKind::Host, "cannot write the output", e.to_string())),
    }
}

/// Writes a line for people. Further ones are indented, so that no foreign text looks like an error or a hint of ours.
pub(crate) fn say(text: &str) {
    let _closed = writeln!(io::stderr().lock(), "{}", lines(&text.replace('\n', "\n  ")));
}

/// Writes an error: `error: what: why`, then its hint.
pub(crate) fn error(text: &str) {
    say(&format!("error: {}", text.trim_end()));
}

/// Writes a problem as an error.
pub(crate) fn problem(problem: &Problem) {
    error(&format!("{}: {}", line(&problem.what), problem.why));
    if let Some(hint) = &problem.hint {
        say(&format!("hint: {hint}"));
    }
}

/// Writes what is wrong with a command line, or the requested help.
pub(crate) fn command_line(error: &clap::Error) {
    if !error.use_stderr() {
        let _unwritable = error.print();
        return;
    }
    // Names of files (`holdup report *`) may come from other users.
    let text = error.render();
    let text = if is_colored(&io::stderr()) { printed(&text.ansi().to_string()) } else { lines(&text.to_string()) };
    let _closed = write!(io::stderr().lock(), "{text}");
}

/// How stdout is rendered: with its width, in colour on a terminal that has colours, unless NO_COLOR is set.
pub(crate) fn terminal(details: bool) -> TerminalOptions {
    TerminalOptions { width: width(), color: is_colored(&io::stdout()), details }
}

fn is_colored(to: &impl IsTerminal) -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|v| v.is_empty());
    unset("NO_COLOR") && std::env::var("TERM").map_or(true, |t| t != "dumb") && to.is_terminal()
}

/// The width of the terminal, or 80 columns into a pipe or a file.
fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    columns.or_else(terminal_width).unwrap_or(80).clamp(60, 200)
}

fn terminal_width() -> Option<usize> {
    rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
