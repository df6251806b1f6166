//! How a guest is lost, and how one ends.

use holdup_model::Problem;
use std::fmt;

/// Console lines that go with a loss: a panic with its registers and calls.
pub(super) const TAIL_LINES: usize = 40;

/// A guest with which nothing more can be done, or (damage) of which a message is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// What happened.
    pub cause: Cause,
    /// The last lines of the console; empty when it said nothing.
    pub console: Vec<String>,
}

/// What happened to a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The kernel panicked or oopsed.
    Panic {
        /// The console line that says so.
        line: String,
    },
    /// The guest has no memory left: a panic for that reason, or the agent was killed.
    OutOfMemory {
        /// The console line that says so.
        line: String,
    },
    /// The first process ended, or could not be started.
    InitDied {
        /// The console line that says so.
        line: String,
    },
    /// Neither a message nor a byte of the console for too long, after the first message.
    Hang {
        /// How long, seconds.
        seconds: u64,
        /// What QEMU says that the machine does (`running`, `internal-error`, …), or why it says nothing.
        status: String,
    },
    /// No first message within the time that a boot may take.
    Timeout {
        /// That time, seconds.
        seconds: u64,
        /// What QEMU says that the machine does.
        status: String,
    },
    /// QEMU ended by itself, or somebody else ended it.
    QemuDied {
        /// Its exit code or signal, in words.
        status: String,
        /// The signal that killed it.
        signal: Option<i32>,
        /// The end of what it wrote to its standard error.
        stderr: String,
    },
    /// The guest switched itself off or restarted, without a panic.
    GuestOff {
        /// QEMU's reason: `guest-shutdown` or `guest-reset`.
        reason: String,
    },
    /// Messages came damaged or are missing. The machine still runs; what was asked of it must be asked again.
    Damaged {
        /// What is wrong with them.
        why: String,
    },
    /// The host refused something that the line to the guest needs.
    Host {
        /// What, and its reason.
        why: String,
    },
}

impl Cause {
    /// One word for a table: `panic`, `out-of-memory`, `init-died`, `hang`, `timeout`, `qemu-died`, `guest-off`,
    /// `damaged` or `host`.
    pub fn word(&self) -> &'static str {
        match self {
            Cause::Panic { .. } => "panic",
            Cause::OutOfMemory { .. } => "out-of-memory",
            Cause::InitDied { .. } => "init-died",
            Cause::Hang { .. } => "hang",
            Cause::Timeout { .. } => "timeout",
            Cause::QemuDied { .. } => "qemu-died",
            Cause::GuestOff { .. } => "guest-off",
            Cause::Damaged { .. } => "damaged",
            Cause::Host { .. } => "host",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Panic { line } => write!(f, "its kernel panicked: {line}"),
            Cause::OutOfMemory { line } => write!(f, "it ran out of memory: {line}"),
            Cause::InitDied { line } => write!(f, "its first process died: {line}"),
            Cause::Hang { seconds, status } => {
                write!(f, "no message and no byte of the console for {seconds} s (QEMU says: {status})")
            }
            Cause::Timeout { seconds, status } => {
                write!(f, "no first message within {seconds} s (QEMU says: {status})")
            }
            Cause::QemuDied { status, stderr, .. } if stderr.is_empty() => write!(f, "QEMU ended: {status}"),
            Cause::QemuDied { status, stderr, .. } => write!(f, "QEMU ended: {status}: {stderr}"),
            Cause::GuestOff { reason } => write!(f, "it switched itself off ({reason})"),
            Cause::Damaged { why } => write!(f, "damage on the line: {why}"),
            Cause::Host { why } => f.write_str(why),
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        for line in &self.console {
            write!(f, "\nconsole: {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Lost {}

impl Lost {
    /// The failure of one trial, with the last line of the console.
    pub fn problem(&self, guest: &str) -> Problem {
        let problem = Problem::trial(guest, self.cause.to_string());
        match self.console.last() {
            Some(line) => problem.hint(format!("the console's last line is `{line}`")),
            None => problem.hint("the console said nothing"),
        }
    }
}

/// A machine that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How QEMU ended, in words: `exit status: 0`, or that it had to be killed.
    pub status: String,
    /// Whether it had to be killed, because it did not end when told to.
    pub killed: bool,
    /// The console, as far as it is kept (the last 1 MiB).
    pub console: Vec<u8>,
    /// All bytes that the console brought.
    pub console_bytes: u64,
    /// Console lines worth a note: soft lockups, stalls, warnings.
    pub notes: Vec<String>,
    /// The end of QEMU's standard error.
    pub stderr: String,
}
