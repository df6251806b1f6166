//! Errors that carry the path and the errno.

use holdup_model::Problem;
use std::fmt;
use std::io;

/// Something on the host that could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostError {
    /// `read`, `write`, `list`, `remove`, `set`, `hold`, `release`, `ask about`.
    pub operation: &'static str,
    /// The path, as seen from the host's root.
    pub path: String,
    /// What kind of error it was.
    pub kind: io::ErrorKind,
    /// The error in words, from the system.
    pub message: String,
    /// What to do about it, where that is known.
    pub hint: Option<&'static str>,
}

impl HostError {
    /// From an error of the system.
    pub fn new(operation: &'static str, path: &str, error: &io::Error) -> Self {
        HostError { operation, path: path.to_owned(), kind: error.kind(), message: plain(error), hint: None }
    }

    /// True if what was asked for is not there (any more): ENOENT, and ESRCH for a process that has ended.
    pub fn is_gone(&self) -> bool {
        self.kind == io::ErrorKind::NotFound || self.message == "no such process"
    }
}

/// The system's words without the number: `Permission denied (os error 13)` → `permission denied`.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.operation, self.path, self.message)
    }
}

impl std::error::Error for HostError {}

impl From<HostError> for Problem {
    fn from(e: HostError) -> Self {
        let problem = Problem::host(format!("cannot {} {}", e.operation, e.path), e.message);
        match e.hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}
