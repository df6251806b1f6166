//! An agent on a host that stays when the agent ends: what it changed is put back also when its line breaks.
//!
//! Its undo journal is on that host's disk. When the line ends, or is silent for too long, the trial under way is ended
//! and the session closed, which puts everything back; a report of that stands beside the journal until the next
//! agent hands it on. An agent that is killed leaves its journal, which the next one carries out.

use crate::local;
use holdup_host::lock::HostLock;
use holdup_host::{Host, process, state};
use holdup_load::Cancel;
use holdup_model::Problem;
use holdup_watch::unix_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a wait looks whether a signal came.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// What an agent on a host that stays needs to know.
#[derive(Debug, Clone)]
pub struct Hosted {
    /// The longest that the line may be silent.
    pub dead_after: Duration,
    /// How long to wait for another run on this host to end.
    pub wait: Duration,
    /// Set by signals that ask the agent to end.
    pub ended: Cancel,
    /// Why the line ended, once it did.
    pub(super) cause: Cause,
}

/// Why a line ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Cause(Arc<Mutex<Option<String>>>);

impl Cause {
    fn set(&self, why: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }

    fn get(&self) -> String {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.unwrap_or_else(|| "its session was closed".to_owned())
    }
}

impl Hosted {
    /// An agent that may lose its line.
    pub fn new(dead_after: Duration, wait: Duration, ended: Cancel) -> Self {
        Hosted { dead_after, wait, ended, cause: Cause::default() }
    }

    /// The line's both directions, neither of which blocks for longer than the line may be silent.
    ///
    /// # Errors
    /// When the output cannot be switched to non-blocking.
    pub fn line(
        &self,
        input: File,
        output: File,
    ) -> io::Result<(impl Read + Send + 'static, impl Write + Send + 'static)> {
        rustix::io::ioctl_fionbio(&output, true)?;
        Ok((Input { from: input, hosted: self.clone() }, Output { to: output, hosted: self.clone() }))
    }

    fn silent(&self) -> io::Error {
        self.cause.set(format!("the line was silent for {} s", self.dead_after.as_secs_f64()));
        io::ErrorKind::TimedOut.into()
    }

    /// Waits until a descriptor is ready.
    fn wait_for(&self, file: &File, flags: PollFlags) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            match poll(&mut [PollFd::new(file, flags)], Some(&LOOK)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(e) => return Err(e.into()),
            }
            if self.ended.is_cancelled() {
                self.cause.set("a signal asked it to end".to_owned());
                return Err(io::ErrorKind::TimedOut.into());
            }
            if begun.elapsed() >= self.dead_after {
                return Err(self.silent());
            }
        }
    }
}

struct Input {
    from: File,
    hosted: Hosted,
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.hosted.wait_for(&self.from, PollFlags::IN)?;
        let read = self.from.read(bytes);
        match &read {
            Ok(0) => self.hosted.cause.set("the line was closed".to_owned()),
            Err(e) if e.kind() != io::ErrorKind::Interrupted => self.hosted.cause.set(format!("the line broke: {e}")),
            _ => {}
        }
        read
    }
}

struct Output {
    to: File,
    hosted: Hosted,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.to.write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.hosted.wait_for(&self.to, PollFlags::OUT)?,
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// What stands on disk of an agent with an open session, and of one that lost its line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Report {
    pid: u32,
    start_time: Option<u64>,
    boot_id: Option<String>,
    began_unix_ns: i64,
    ended: Option<Ended>,
}

/// How it ended, where the holdup that gave the orders could not hear it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Ended {
    unix_ns: i64,
    why: String,
    /// What could not be put back.
    left: Option<String>,
}

fn path() -> String {
    format!("{}/agent.json", state::dir())
}

/// Which boot of the kernel this is.
pub(super) fn boot_id(host: &Host) -> Option<String> {
    host.read_value("/proc/sys/kernel/random/boot_id").ok()
}

impl Report {
    fn read(host: &Host) -> Option<Report> {
        serde_json::from_slice(&host.read_own(&path()).ok()?).ok()
    }

    fn write(&self, host: &Host) -> Result<(), Problem> {
        let failed = |why: String| {
            Problem::host("the report of the agent", why).hint(format!("{} must be writable", state::dir()))
        };
        let bytes = serde_json::to_vec(self).map_err(|e| failed(e.to_string()))?;
        host.replace_synced(&path(), &bytes).map_err(|e| failed(e.to_string()))
    }

    fn is_running(&self, host: &Host) -> bool {
        self.ended.is_none()
            && self.boot_id == boot_id(host)
            && self.start_time.is_some_and(|start_time| process::alive(host, self.pid, start_time))
    }

    /// What it says to people, by the clock of this host.
    fn in_words(&self, host: &Host, now_unix_ns: i64) -> String {
        let ago = |unix_ns: i64| format!("{} s ago", now_unix_ns.saturating_sub(unix_ns) / 1_000_000_000);
        match &self.ended {
            Some(Ended { unix_ns, why, left: None }) => {
                format!("an earlier agent ended {} because {why}, and restored the host", ago(*unix_ns))
            }
            Some(Ended { unix_ns, why, left: Some(left) }) => {
                format!("an earlier agent ended {} because {why}, and could not restore: {left}", ago(*unix_ns))
            }
            None if self.boot_id != boot_id(host) => format!(
                "the host restarted while an earlier agent worked, which began {}; what it set is gone or put back now",
                ago(self.began_unix_ns)
            ),
            None => format!(
                "an earlier agent (pid {}), which began {}, was killed; what it set is put back now",
                self.pid,
                ago(self.began_unix_ns)
            ),
        }
    }
}

/// What the last agent here did, unless it is still at work.
pub(super) fn last(host: &Host) -> Option<String> {
    let report = Report::read(host).filter(|report| !report.is_running(host))?;
    Some(report.in_words(host, unix_ns()))
}

/// Forgets what [`last`] said: the other side has it.
pub(super) fn forget(host: &Host) {
    if Report::read(host).is_some_and(|report| !report.is_running(host)) {
        // One that stays is said once more.
        let _stays = host.remove_synced(&path());
    }
}

/// Held while a session is open.
pub(super) struct Hold<'a> {
    host: &'a Host,
    hosted: &'a Hosted,
    report: Report,
    /// What is worth saying of what was found.
    pub(super) notes: Vec<String>,
    _lock: HostLock,
}

impl<'a> Hold<'a> {
    /// Takes the host, and puts back what an earlier run left changed.
    pub(super) fn take(host: &'a Host, hosted: &'a Hosted, cancel: &Cancel) -> Result<Self, Problem> {
        let lock = HostLock::take(hosted.wait, &|| cancel.is_cancelled())?;
        let mut notes: Vec<String> = last(host).into_iter().collect();
        notes.extend(local::recover(host)?);
        let pid = std::process::id();
        let start_time = process::start_time(host, pid).ok();
        let report = Report { pid, start_time, boot_id: boot_id(host), began_unix_ns: unix_ns(), ended: None };
        report.write(host)?;
        Ok(Hold { host, hosted, report, notes, _lock: lock })
    }

    /// No session was opened: gives what was found and put back.
    pub(super) fn done(mut self) -> Vec<String> {
        // One that stays is taken for an agent that was killed, which is harmless.
        let _stays = self.host.remove_synced(&path());
        std::mem::take(&mut self.notes)
    }

    /// The session was closed; whether the other side knows is not known yet.
    pub(super) fn ended(mut self, left: Option<&Problem>) {
        let left = left.map(ToString::to_string);
        self.report.ended = Some(Ended { unix_ns: unix_ns(), why: self.hosted.cause.get(), left });
        // The line is gone, so a failure cannot be reported; the journal has what matters.
        let _unheard = self.report.write(self.host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    fn pipe() -> (File, File) {
        let (from, to) = rustix::pipe::pipe().expect("a pipe");
        (OwnedFd::into(from), OwnedFd::into(to))
    }

    fn hosted(dead_after: Duration) -> Hosted {
        Hosted::new(dead_after, Duration::ZERO, Cancel::default())
    }

    #[test]
    fn neither_direction_waits_longer_than_the_line_may_be_silent() {
        let hosted = hosted(Duration::from_millis(200));
        let ((from, _silent), (_unread, to)) = (pipe(), pipe());
        let (mut input, mut output) = hosted.line(from, to).expect("a line");
        assert_eq!(input.read(&mut [0; 8]).expect_err("nothing came").kind(), io::ErrorKind::TimedOut);
        assert_eq!(hosted.cause.get(), "the line was silent for 0.2 s");
        // More than any pipe holds.
        let written = output.write_all(&vec![0; 32 << 20]);
        assert_eq!(written.expect_err("nobody reads").kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_line_that_is_closed_or_ended_by_a_signal_says_so() {
        let closed = hosted(Duration::from_secs(60));
        let ((from, to), (_unread, out)) = (pipe(), pipe());
        drop(to);
        let (mut input, _output) = closed.line(from, out).expect("a line");
        assert_eq!(input.read(&mut [0; 8]).expect("an end"), 0);
        assert_eq!(closed.cause.get(), "the line was closed");
        let signalled = hosted(Duration::from_secs(60));
        let ((from, _to), (_unread, out)) = (pipe(), pipe());
        let (mut input, _output) = signalled.line(from, out).expect("a line");
        signalled.ended.cancel();
        assert!(input.read(&mut [0; 8]).is_err());
        assert_eq!(signalled.cause.get(), "a signal asked it to end");
    }

    #[test]
    fn what_became_of_an_agent_is_said_by_boot_and_process() {
        let host = Host::real();
        let report =
            |pid, boot_id: Option<String>, ended| Report { pid, start_time: Some(1), boot_id, began_unix_ns: 0, ended };
        let words = |report: &Report| report.in_words(&host, 5_000_000_000);
        let now = boot_id(&host);
        assert!(words(&report(7, now.clone(), None)).contains("(pid 7), which began 5 s ago, was killed"));
        assert!(words(&report(7, Some("another".to_owned()), None)).starts_with("the host restarted"));
        let ended = |left: Option<&str>| {
            let (unix_ns, why) = (2_000_000_000, "the line was closed".to_owned());
            report(7, now.clone(), Some(Ended { unix_ns, why, left: left.map(str::to_owned) }))
        };
        assert!(words(&ended(None)).ends_with("3 s ago because the line was closed, and restored the host"));
        assert!(words(&ended(Some("swappiness"))).ends_with("could not restore: swappiness"));
    }
}
