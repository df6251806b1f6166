//! Errors that reach a user: what, why, and what to do.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What kind of trouble it is; it decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// The command line or the plan is wrong: exit code 2.
    Usage,
    /// This host cannot do it, or the answer is undecided: exit code 3.
    Host,
    /// One trial failed; the trial is void and the run continues.
    Trial,
    /// The user or a signal ended it; the host is restored: exit code 4.
    Interrupted,
    /// Something could not be put back: exit code 5.
    NotRestored,
    /// A fault of holdup itself: exit code 70.
    Internal,
}

impl ProblemKind {
    /// The exit code of a command that ends with this problem.
    pub fn exit_code(self) -> u8 {
        match self {
            ProblemKind::Usage => 2,
            ProblemKind::Host | ProblemKind::Trial => 3,
            ProblemKind::Interrupted => 4,
            ProblemKind::NotRestored => 5,
            ProblemKind::Internal => 70,
        }
    }
}

/// An error with the thing it is about, the reason, and a way out.
///
/// Printed as `what: why`, then, when a way out is known, a line
/// `hint: what to do`. Lower case, no full stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What kind of trouble it is.
    pub kind: ProblemKind,
    /// The thing, with its place and the wrong value.
    pub what: String,
    /// Why it does not work.
    pub why: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem of a kind, without a hint.
    pub fn new(kind: ProblemKind, what: impl Into<String>, why: impl Into<String>) -> Self {
        Problem { kind, what: what.into(), why: why.into(), hint: None }
    }

    /// A wrong command line or plan.
    pub fn usage(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(ProblemKind::Usage, what, why)
    }

    /// Something that this host cannot do.
    pub fn host(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(ProblemKind::Host, what, why)
    }

    /// A trial that failed.
    pub fn trial(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(ProblemKind::Trial, what, why)
    }

    /// The user or a signal ended it.
    pub fn interrupted(what: impl Into<String>) -> Self {
        Self::new(ProblemKind::Interrupted, what, "interrupted")
    }

    /// A fault of holdup itself.
    pub fn internal(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(ProblemKind::Internal, what, why)
    }

    /// The same problem with a way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same problem, of another kind.
    #[must_use]
    pub fn of_kind(mut self, kind: ProblemKind) -> Self {
        self.kind = kind;
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)?;
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}
