//! Facts about a host, with their source. The environment is evidence.

use serde::{Deserialize, Serialize};

/// One fact about the host, or the reason why it is not known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fact {
    /// Dotted key, such as `kernel.release` or `cpu.online`.
    pub key: String,
    /// The value; `None` when it could not be read.
    pub value: Option<String>,
    /// Where it was read: a path, a system call, an SQL query.
    pub source: String,
    /// Why there is no value.
    pub absent: Option<String>,
    /// True if it must not change during a trial: a trial in which it moved is void.
    pub steady: bool,
}

impl Fact {
    /// A fact that was read.
    pub fn read(key: impl Into<String>, value: impl Into<String>, source: impl Into<String>) -> Self {
        Fact { key: key.into(), value: Some(value.into()), source: source.into(), absent: None, steady: false }
    }

    /// A fact that could not be read.
    pub fn absent(key: impl Into<String>, source: impl Into<String>, why: impl Into<String>) -> Self {
        Fact { key: key.into(), value: None, source: source.into(), absent: Some(why.into()), steady: false }
    }

    /// The same fact, marked as one that must not move during a trial.
    #[must_use]
    pub fn steady(mut self) -> Self {
        self.steady = true;
        self
    }
}

/// The environment at the begin of a session, or of a boot where the plan chooses something at boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentReading {
    /// The session, from 0.
    pub session: u32,
    /// The boot, from 0, counted over all sessions.
    pub boot: u32,
    /// What was read.
    pub facts: Vec<Fact>,
}

/// What relative sizes in a plan are relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// CPUs that this process may use.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
}
