//! Watching over a program: its output flows, its time is taken, and its process group does not outlive the trial.

use crate::command::guard::Guard;
use crate::command::spawn::{self, AtGate, Program};
use crate::command::tail::Tail;
use holdup_host::Host;
use holdup_load::{Cancel, WindowHooks};
use holdup_model::Problem;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// How often the cancel flag is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How often the program is looked at where the kernel has no pidfd (before 5.3).
const LOOK_WITHOUT_PIDFD: Duration = Duration::from_millis(1);
/// How long a program may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(1);
/// How long output is awaited from what is left of the group after the program has ended.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// How a program is watched.
pub(crate) struct Watch<'a> {
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancel: &'a Cancel,
    /// Ends the program before its time, without blame.
    pub(crate) enough: &'a Cancel,
    pub(crate) host: &'a Host,
    /// Bytes kept of stdout and of stderr.
    pub(crate) kept: (usize, usize),
    /// The CPUs that it may run on; `None` for those of holdup.
    pub(crate) cpus: Option<&'a [u32]>,
    /// A server that runs beside it, for the collectors.
    pub(crate) server: Option<u32>,
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
    TimedOut,
    Cancelled,
    /// It was ended because there was enough of it.
    Enough,
}

/// What the kernel says that the program and its descendants, as far as they were waited for, have used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    pub(crate) max_rss_bytes: u64,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
}

/// A program that has ended.
pub(crate) struct Completed {
    pub(crate) how: Exit,
    /// From the opened gate to its end.
    pub(crate) duration_s: f64,
    pub(crate) stdout: Tail,
    pub(crate) stderr: Tail,
    pub(crate) usage: Usage,
    /// Processes of its group that still ran when it had ended, and were ended.
    pub(crate) left_running: usize,
}

/// Runs a program from its begin to its end, inside a window.
pub(crate) fn run(
    program: &Program,
    watch: &Watch<'_>,
    window: &mut dyn WindowHooks,
    name: &str,
) -> Result<Completed, Problem> {
    // From here on, dropping `group` ends and waits for what was started.
    let (mut group, at_gate) = Group::start(program, watch.host, watch.cpus, name)?;
    let mut subjects = vec![("load".to_owned(), group.number())];
    subjects.extend(watch.server.map(|pid| ("server".to_owned(), pid)));
    window.open(&subjects)?;
    let begin = Instant::now();
    let mut streams = Streams::of(at_gate, watch.kept, name)?;
    let (forced, end) = group.attend(&mut streams, begin, watch);
    // The program is a zombie now and not yet waited for, so collectors can still read its accounts.
    let closed = window.close();
    let left_running = if forced.is_none() { members(watch.host, group.pid, group.guard.pid()).len() } else { 0 };
    group.signal(Signal::KILL);
    streams.last_words();
    let (status, usage) = group.wait()?;
    closed?;
    let how = forced.unwrap_or(if libc::WIFEXITED(status) {
        Exit::Code(libc::WEXITSTATUS(status))
    } else {
        Exit::Signal(libc::WTERMSIG(status))
    });
    Ok(Completed {
        how,
        duration_s: (end - begin).as_secs_f64(),
        stdout: streams.stdout.1,
        stderr: streams.stderr.1,
        usage,
        left_running,
    })
}

fn unstartable(name: &str, error: &std::io::Error) -> Problem {
    let problem = Problem::trial(format!("command {name}"), format!("it cannot be executed: {error}"));
    if error.raw_os_error() == Some(libc::ENOEXEC) {
        return problem.hint("a script needs a first line such as #!/bin/sh");
    }
    problem
}

/// A process group of our own, by its first process.
pub(super) struct Group {
    pid: Pid,
    waited: bool,
    guard: Guard,
}

impl Group {
    /// Makes the first process, which waits at the gate, and the group's guard.
    pub(super) fn start(
        program: &Program,
        host: &Host,
        cpus: Option<&[u32]>,
        name: &str,
    ) -> Result<(Self, AtGate), Problem> {
        let none = |e| Problem::trial(format!("command {name}"), format!("no process can be made: {e}"));
        let at_gate = spawn::start(program).map_err(none)?;
        let guard = Guard::start(at_gate.pid).map_err(|e| {
            let _gone_already = rustix::process::kill_process(at_gate.pid, Signal::KILL);
            let _nothing_to_report = rustix::process::waitpid(Some(at_gate.pid), rustix::process::WaitOptions::empty());
            none(e)
        })?;
        let group = Group { pid: at_gate.pid, waited: false, guard };
        if let Some(cpus) = cpus {
            host.set_affinity(group.number(), cpus)
                .map_err(|e| Problem::trial(format!("the CPUs {cpus:?} for {name}"), e.to_string()))?;
        }
        Ok((group, at_gate))
    }

    /// The pid of its first process, which is the number of the group.
    pub(super) fn number(&self) -> u32 {
        u32::try_from(self.pid.as_raw_nonzero().get()).unwrap_or_default()
    }

    /// True if only its first process is left of it, those included that have ended but were not waited for.
    pub(super) fn is_alone(&self, host: &Host) -> bool {
        let own = self.pid.as_raw_nonzero().get();
        let guard = self.guard.pid().as_raw_nonzero().get();
        let pids = host.list("/proc").unwrap_or_default();
        let mut others = pids.iter().filter_map(|p| p.parse::<i32>().ok()).filter(|p| *p != own && *p != guard);
        !others.any(|p| state_in_group(host, p.unsigned_abs(), own).is_some())
    }

    /// Reads output until the program has ended, by itself or because it had to. Says what forced it, and when it ended.
    fn attend(&self, streams: &mut Streams, begin: Instant, watch: &Watch<'_>) -> (Option<Exit>, Instant) {
        let pidfd = rustix::process::pidfd_open(self.pid, PidfdFlags::empty()).ok();
        let mut forced: Option<(Exit, Instant)> = None;
        let mut killed = false;
        loop {
            let wait = if pidfd.is_some() { LOOK } else { LOOK_WITHOUT_PIDFD };
            let left = watch.timeout.filter(|_| forced.is_none()).map_or(wait, |t| t.saturating_sub(begin.elapsed()));
            streams.poll(pidfd.as_ref(), wait.min(left));
            if self.has_ended() {
                return (forced.map(|f| f.0), Instant::now());
            }
            match forced {
                None if watch.cancel.is_cancelled() => forced = Some((Exit::Cancelled, Instant::now())),
                None if watch.enough.is_cancelled() => forced = Some((Exit::Enough, Instant::now())),
                None if watch.timeout.is_some_and(|t| begin.elapsed() >= t) => {
                    forced = Some((Exit::TimedOut, Instant::now()));
                }
                Some((_, since)) if !killed && since.elapsed() >= GRACE => {
                    self.signal(Signal::KILL);
                    killed = true;
                    continue;
                }
                _ => continue,
            }
            self.signal(Signal::TERM);
            // A stopped process gets the signal only when it continues.
            self.signal(Signal::CONT);
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(rustix::process::waitid(WaitId::Pid(self.pid), options), Ok(Some(_)))
    }

    /// Signals the whole group. As long as its first process was not waited for, the number is its own.
    pub(super) fn signal(&self, signal: Signal) {
        let _gone_already = rustix::process::kill_process_group(self.pid, signal);
    }

    pub(super) fn wait(&mut self) -> Result<(i32, Usage), Problem> {
        let mut status = 0;
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        loop {
            // SAFETY: the kernel writes a status and a rusage, which is valid as zeroes too.
            let got = unsafe { libc::wait4(self.pid.as_raw_nonzero().get(), &raw mut status, 0, usage.as_mut_ptr()) };
            if got > 0 {
                break;
            }
            let error = std::io::Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(Problem::internal("the command's process", format!("it cannot be waited for: {error}")));
            }
        }
        self.waited = true;
        // SAFETY: written by the kernel, or zeroes.
        let usage = unsafe { usage.assume_init() };
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
        let usage = Usage {
            user_s: seconds(usage.ru_utime),
            system_s: seconds(usage.ru_stime),
            max_rss_bytes: usage.ru_maxrss as u64 * 1024,
            voluntary: usage.ru_nvcsw as u64,
            involuntary: usage.ru_nivcsw as u64,
        };
        Ok((status, usage))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.waited {
            self.signal(Signal::KILL);
            // Before it made its group, or where that failed, only the process itself can be reached.
            let _gone_already = rustix::process::kill_process(self.pid, Signal::KILL);
            let _nothing_to_report = self.wait();
        }
    }
}

/// Both streams of a program, each open until its end was read.
pub(super) struct Streams {
    pub(super) stdout: (Option<OwnedFd>, Tail),
    pub(super) stderr: (Option<OwnedFd>, Tail),
}

impl Streams {
    /// Opens the gate of a program.
    pub(super) fn of(at_gate: AtGate, kept: (usize, usize), name: &str) -> Result<Self, Problem> {
        let (stdout, stderr) = at_gate.open().map_err(|e| unstartable(name, &e))?;
        Ok(Streams { stdout: (Some(stdout), Tail::new(kept.0)), stderr: (Some(stderr), Tail::new(kept.1)) })
    }

    /// Waits until something happens, and reads what is there.
    pub(super) fn poll(&mut self, pidfd: Option<&OwnedFd>, wait: Duration) {
        let fds = [self.stdout.0.as_ref(), self.stderr.0.as_ref(), pidfd];
        let mut polled: Vec<PollFd<'_>> = fds.into_iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        // An interrupted poll is followed by a look at everything, like any other.
        let _again = rustix::event::poll(&mut polled, Some(&wait));
        read_some(&mut self.stdout);
        read_some(&mut self.stderr);
    }

    /// Reads until both streams have ended, or for a moment when something outside the group holds them open.
    pub(super) fn last_words(&mut self) {
        let deadline = Instant::now() + LAST_WORDS;
        while (self.stdout.0.is_some() || self.stderr.0.is_some()) && Instant::now() < deadline {
            self.poll(None, Duration::from_millis(5));
        }
    }
}

/// Reads what is there, up to a bound so that a program that never stops talking cannot keep us from looking at the time.
fn read_some((stream, tail): &mut (Option<OwnedFd>, Tail)) {
    let mut buffer = [0u8; 16 << 10];
    for _ in 0..64 {
        let Some(fd) = stream else { return };
        match rustix::io::read(&*fd, &mut buffer) {
            Ok(0) => *stream = None,
            Ok(n) => tail.push(&buffer[..n]),
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => return,
            Err(_) => *stream = None,
        }
    }
}

/// The living processes of a group but its first one and its guard.
fn members(host: &Host, group: Pid, guard: Pid) -> Vec<u32> {
    let (group, guard) = (group.as_raw_nonzero().get(), guard.as_raw_nonzero().get());
    let names = host.list("/proc").unwrap_or_default();
    let pids = names.iter().filter_map(|name| name.parse::<i32>().ok()).filter(|pid| *pid != group && *pid != guard);
    pids.map(i32::unsigned_abs)
        .filter(|pid| state_in_group(host, *pid, group).is_some_and(|state| !matches!(state, 'Z' | 'X')))
        .collect()
}

/// The state of a process, when it is in a group.
fn state_in_group(host: &Host, pid: u32, group: i32) -> Option<char> {
    let stat = host.read_text(&format!("/proc/{pid}/stat")).ok()?;
    // The name before the last parenthesis may hold anything; state, parent and group follow it.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    (fields.nth(1)? == group.to_string()).then_some(state)
}
