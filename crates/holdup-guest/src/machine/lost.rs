//! The loss and the end of a guest.

use holdup_model::Problem;
use std::fmt;

/// Console lines in a loss: enough for a panic with registers and call trace.
pub(super) const TAIL_LINES: usize = 40;

/// A guest that cannot continue, or (`Damaged`) a message that was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    pub cause: Cause,
    /// The last lines of the console.
    pub console: Vec<String>,
}

/// The cause of a loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The kernel panicked or oopsed.
    Panic {
        /// The console line.
        line: String,
    },
    /// A panic for lack of memory, or the OOM killer took the agent.
    OutOfMemory {
        /// The console line.
        line: String,
    },
    /// The first process ended, or could not be started.
    InitDied {
        /// The console line.
        line: String,
    },
    /// No message and no console output for too long, after the first message.
    Hang {
        seconds: u64,
        /// The machine's status according to QEMU (`running`, `internal-error`, …), or why there is none.
        status: String,
    },
    /// No first message within the boot timeout.
    Timeout {
        seconds: u64,
        /// The machine's status according to QEMU.
        status: String,
    },
    /// QEMU exited or was killed.
    QemuDied {
        /// `exit code 1`, `signal 9`.
        status: String,
        /// The signal, if it was killed.
        signal: Option<i32>,
        /// The end of its standard error.
        stderr: String,
    },
    /// The guest powered off or restarted without a panic.
    GuestOff {
        /// QEMU's reason: `guest-shutdown` or `guest-reset`.
        reason: String,
    },
    /// A message is damaged or missing. The machine still runs; the request must be repeated.
    Damaged {
        /// The damage.
        why: String,
    },
    /// The host refused an operation on the channel.
    Host {
        /// The operation and the reason.
        why: String,
    },
}

impl Cause {
    /// For tables: `panic`, `out-of-memory`, `init-died`, `hang`, `timeout`, `qemu-died`, `guest-off`, `damaged` or `host`.
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
                write!(f, "no message and no console output for {seconds} s (QEMU's status: {status})")
            }
            Cause::Timeout { seconds, status } => {
                write!(f, "no first message within {seconds} s (QEMU's status: {status})")
            }
            Cause::QemuDied { status, stderr, .. } if stderr.is_empty() => write!(f, "QEMU ended: {status}"),
            Cause::QemuDied { status, stderr, .. } => write!(f, "QEMU ended: {status}: {stderr}"),
            Cause::GuestOff { reason } => write!(f, "it switched itself off ({reason})"),
            Cause::Damaged { why } => write!(f, "damage on the channel: {why}"),
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
    /// A trial problem, with the last line of the console, or what to do about an emulator that ran stale code.
    pub fn problem(&self, guest: &str) -> Problem {
        let problem = Problem::trial(guest, self.cause.to_string());
        // Before 8.1 a CPU of QEMU's may translate an instruction that another CPU changes meanwhile (accel/tcg/translate-all.c,
        // tb_link_page() locks the page after the translation), so the kernel meets a breakpoint that it has taken away.
        if matches!(&self.cause, Cause::Panic { line } if line.contains("int3")) {
            return problem.hint(
                "emulated CPUs run stale code where a kernel patches its own: QEMU 8.1 and later do it far less often, KVM never",
            );
        }
        match self.console.last() {
            Some(line) => problem.hint(format!("the console's last line is `{line}`")),
            None => problem.hint("the console is empty"),
        }
    }
}

/// The end of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// `exit code 0`, or that it had to be killed.
    pub status: String,
    /// True if it had to be killed.
    pub killed: bool,
    /// The last 1 MiB of the console.
    pub console: Vec<u8>,
    /// The length of the console.
    pub console_bytes: u64,
    /// Console lines to report: soft lockups, stalls, warnings.
    pub notes: Vec<String>,
    /// The end of QEMU's standard error.
    pub stderr: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(line: &str) -> String {
        let cause = Cause::Panic { line: line.to_owned() };
        let lost = Lost { cause, console: vec!["the end".to_owned()] };
        lost.problem("the guest").hint.expect("a hint")
    }

    #[test]
    fn a_breakpoint_in_the_kernel_names_the_emulator() {
        assert!(hint("[  271.536805] Oops: int3: 0000 [#1] SMP NOPTI").contains("QEMU 8.1"));
        assert_eq!(
            hint("[   12.1] Kernel panic - not syncing: sysrq triggered crash"),
            "the console's last line is `the end`"
        );
    }
}
