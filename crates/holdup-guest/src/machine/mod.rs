//! The virtual machine: QEMU's command line, start, supervision and end.
//!
//! ```text
//!   holdup ── socket pair ── QEMU ── first serial port ── the kernel's console
//!          ── socket pair ──      ── virtio port, or second serial port ── frames of the agent
//!          ── socket pair ──      ── QMP
//! ```
//!
//! QEMU inherits the sockets, so nothing is left in the file system. The kernel kills QEMU when holdup ends in any way (see
//! `spawn.rs`).

mod arguments;
mod choose;
mod console;
mod line;
mod link;
mod lost;
mod qmp;
mod spawn;

pub use arguments::{Descriptors, PORT, arguments, command_line};
pub use choose::{Availability, Chosen, Kvm, check_memory, choose, decide, probe};
pub use console::{Console, KEPT_BYTES, Verdict};
pub use link::{Link, Nic, check_link, link};
pub use lost::{Cause, Ended, Lost};

use crate::arch::Architecture;
use holdup_host::Host;
use holdup_model::environment::Fact;
use holdup_model::frame::{MOST_PAYLOAD_BYTES, encode};
use holdup_model::guest::Guest;
use holdup_model::{Problem, ProblemKind};
use lost::TAIL_LINES;
use qmp::Qmp;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A machine to boot.
#[derive(Debug, Clone, Copy)]
pub struct MachineRequest<'a> {
    /// The kernel: a bzImage (x86_64) or an Image (aarch64).
    pub kernel: &'a Path,
    /// The initramfs, with `/init`.
    pub initramfs: &'a Path,
    /// The machine.
    pub guest: &'a Guest,
    /// The kernel's command line with `guest.append`; [`command_line`] lists what precedes it.
    pub command_line: &'a str,
    pub arch: &'static Architecture,
    /// True if the kernel, or a module in the initramfs, has a virtio console driver.
    pub virtio_console: bool,
    /// QEMU's working directory; it writes nothing there.
    pub folder: &'a Path,
    /// The longest silence after the first message; the agent's heartbeat must be several times as frequent.
    pub silence: Duration,
    /// Its end of the link to another machine.
    pub link: Option<Link>,
}

/// For an answer of QEMU's monitor, which its main thread gives: a busy host delays it.
const MONITOR_LIMIT: Duration = Duration::from_secs(10);

/// For the greeting of QEMU's monitor, and for the first order: a busy host starts its threads late.
const START_LIMIT: Duration = Duration::from_secs(30);

/// For the rest of the kernel's output after a fatal line.
const TRACE_LIMIT: Duration = Duration::from_secs(1);

/// For QEMU to end after `quit`.
const END_LIMIT: Duration = Duration::from_secs(2);

/// A running virtual machine, which is killed on drop.
#[derive(Debug)]
pub struct Machine {
    child: spawn::Guarded,
    qmp: Qmp,
    channel: OwnedFd,
    shared: Arc<line::Shared>,
    sequence: u32,
    started: Instant,
    boot_limit: Duration,
    silence: Duration,
    facts: Vec<Fact>,
    /// The first loss; it is returned again by later calls.
    lost: Option<Lost>,
}

impl Machine {
    /// Starts QEMU, pins its CPUs and resumes them.
    ///
    /// # Errors
    /// When the settings are inconsistent, the host has too little memory, a file is missing, or QEMU does not start; with
    /// QEMU's own message.
    pub fn start(request: &MachineRequest<'_>, chosen: &Chosen) -> Result<Machine, Problem> {
        Self::start_linked(request, chosen, None)
    }

    /// [`Machine::start`] with an end of a [`link()`], of the kind of the request's `link`.
    pub fn start_linked(
        request: &MachineRequest<'_>,
        chosen: &Chosen,
        end: Option<OwnedFd>,
    ) -> Result<Machine, Problem> {
        for (what, path) in [("the kernel", request.kernel), ("the initramfs", request.initramfs)] {
            holdup_files::open_input(path)
                .map_err(|e| Problem::host(format!("{what} {}", path.display()), e.to_string()))?;
        }
        check_pins(&request.guest.pin)?;
        let host = Host::real();
        check_memory(&host, request.guest)?;
        let failed = |e: std::io::Error| Problem::host(chosen.program.display().to_string(), e.to_string());
        let (console, their_console) = UnixStream::pair().map_err(failed)?;
        let (channel, their_channel) = UnixStream::pair().map_err(failed)?;
        let (monitor, their_monitor) = UnixStream::pair().map_err(failed)?;
        let descriptors = Descriptors {
            console: their_console.as_raw_fd(),
            channel: their_channel.as_raw_fd(),
            monitor: their_monitor.as_raw_fd(),
            link: end.as_ref().map(AsRawFd::as_raw_fd),
        };
        let started = Instant::now();
        let program = spawn::Program {
            file: chosen.program.clone(),
            arguments: arguments(request, chosen, descriptors)?,
            folder: request.folder.to_owned(),
            inherited: [their_console, their_channel, their_monitor]
                .map(OwnedFd::from)
                .into_iter()
                .chain(end)
                .collect(),
        };
        let mut child = spawn::Guarded::new(spawn::spawn(program).map_err(failed)?);
        let writing: OwnedFd = channel.try_clone().map_err(failed)?.into();
        let stderr = child.take_stderr().map(OwnedFd::from);
        let ends = line::Ends { console: console.into(), channel: channel.into(), stderr };
        let shared = line::read(ends).map_err(failed)?;
        let qmp = match Qmp::connect(monitor, START_LIMIT) {
            Ok(qmp) => qmp,
            Err(e) => return Err(did_not_start(chosen, &mut child, &shared, &e)),
        };
        let mut machine = Machine {
            child,
            qmp,
            channel: writing,
            shared,
            sequence: 0,
            started,
            boot_limit: Duration::from_nanos(request.guest.boot_timeout_ns),
            silence: request.silence,
            facts: facts(request, chosen),
            lost: None,
        };
        let run = machine.pin(&request.guest.pin).and_then(|()| machine.qmp.execute("cont", START_LIMIT));
        match run {
            Ok(_) => Ok(machine),
            Err(e) => Err(did_not_start(chosen, &mut machine.child, &machine.shared, &e)),
        }
    }

    fn pin(&mut self, pin: &[u32]) -> std::io::Result<()> {
        if pin.is_empty() {
            return Ok(());
        }
        for (thread, cpu) in self.qmp.cpu_threads(MONITOR_LIMIT)?.into_iter().zip(pin.iter().cycle()) {
            let mut set = rustix::thread::CpuSet::new();
            set.set(*cpu as usize);
            rustix::thread::sched_setaffinity(rustix::process::Pid::from_raw(thread), &set)
                .map_err(|e| std::io::Error::other(format!("pin to the host's CPU {cpu}: {e}")))?;
        }
        Ok(())
    }

    /// Sends a message to the agent, and blocks until it is written.
    ///
    /// # Errors
    /// When the guest is lost, or the message has more than [`MOST_PAYLOAD_BYTES`].
    pub fn send(&mut self, payload: &[u8]) -> Result<(), Lost> {
        if payload.len() > MOST_PAYLOAD_BYTES {
            let why = format!("a message of {} bytes, and {MOST_PAYLOAD_BYTES} is the most", payload.len());
            return Err(self.lost_by(Cause::Host { why }));
        }
        let frame = encode(self.sequence, payload);
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
            match rustix::net::send(&self.channel, rest, flags) {
                Ok(count) => rest = &rest[count..],
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    self.check()?;
                    let mut polled = [PollFd::new(&self.channel, PollFlags::OUT)];
                    let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
                    let _ready = rustix::event::poll(&mut polled, Some(&wait));
                }
                Err(e) => {
                    // QEMU has closed its socket: the reader sees the cause first.
                    self.wait_for_end();
                    self.check()?;
                    return Err(self.lost_by(Cause::Host { why: format!("write to the guest: {e}") }));
                }
            }
        }
        self.sequence = self.sequence.wrapping_add(1);
        Ok(())
    }

    /// The next message of the agent; `None` after the timeout.
    ///
    /// Messages received before a loss are returned first.
    ///
    /// # Errors
    /// When the guest is lost, also in each later call. Damage alone does not end the machine.
    pub fn receive(&mut self, timeout: Duration) -> Result<Option<Vec<u8>>, Lost> {
        let deadline = Instant::now() + timeout;
        loop {
            let message = self.shared.lock().inbox.pop_front();
            match message {
                Some(Ok(payload)) => return Ok(Some(payload)),
                Some(Err(why)) => return Err(self.lost_by(Cause::Damaged { why })),
                None => {}
            }
            self.check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let state = self.shared.lock();
            // A message since the check above would not wake this thread again.
            if state.inbox.is_empty() && !state.gone {
                let _woken = self.shared.changed.wait_timeout(state, left.min(Duration::from_millis(200)));
            }
        }
    }

    /// Fails once the guest is lost.
    fn check(&mut self) -> Result<(), Lost> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        let state = self.shared.lock();
        let said = state.verdict.filter(|at| state.gone || at.elapsed() >= TRACE_LIMIT);
        let verdict = said.and_then(|_| state.console.verdict().cloned());
        let (gone, waits, first) = (state.gone, state.verdict.is_some(), state.first_message);
        let silent = state.last_sign.elapsed();
        let inbox_empty = state.inbox.is_empty();
        drop(state);
        let cause = match verdict {
            Some(Verdict::Panic(line)) => Cause::Panic { line },
            Some(Verdict::OutOfMemory(line)) => Cause::OutOfMemory { line },
            Some(Verdict::InitDied(line)) => Cause::InitDied { line },
            None if gone => self.cause_of_end(),
            // Waiting for the rest of the kernel's output.
            None if waits => return Ok(()),
            None if first.is_none() && self.started.elapsed() >= self.boot_limit => {
                Cause::Timeout { seconds: self.boot_limit.as_secs(), status: self.status() }
            }
            None if first.is_some() && inbox_empty && silent >= self.silence => {
                Cause::Hang { seconds: silent.as_secs(), status: self.status() }
            }
            None => return Ok(()),
        };
        let lost = self.lost_by(cause);
        self.lost = Some(lost.clone());
        Err(lost)
    }

    fn status(&mut self) -> String {
        self.qmp.status(MONITOR_LIMIT).unwrap_or_else(|e| e.to_string())
    }

    /// The cause of QEMU's end without a fatal line on the console.
    fn cause_of_end(&mut self) -> Cause {
        // All sockets are closed, so it is about to exit; otherwise it is killed.
        let status = match self.child.wait(END_LIMIT) {
            Ok(Some(status)) => Ok(status),
            _ => self.child.kill(),
        };
        let reason = self.qmp.shutdown_reason();
        let stderr = text_of(&self.shared.lock().stderr);
        match (&status, reason) {
            (Ok(status), Some(reason)) if status.success() && reason.starts_with("guest-") => {
                if reason == "guest-panic" {
                    Cause::Panic { line: "(QEMU reports a panic, and the console shows none)".to_owned() }
                } else {
                    Cause::GuestOff { reason }
                }
            }
            (Ok(status), reason) => Cause::QemuDied {
                signal: status.signal(),
                status: words(*status) + &reason.map(|r| format!(" ({r})")).unwrap_or_default(),
                stderr,
            },
            (Err(e), _) => Cause::QemuDied { signal: None, status: e.to_string(), stderr },
        }
    }

    fn lost_by(&self, cause: Cause) -> Lost {
        Lost { cause, console: self.console_tail(TAIL_LINES) }
    }

    fn wait_for_end(&self) {
        let state = self.shared.lock();
        let _state = self.shared.changed.wait_timeout_while(state, END_LIMIT, |s| !s.gone);
    }

    /// The console so far.
    pub fn console(&self) -> Console {
        self.shared.lock().console.clone()
    }

    /// The last non-empty lines of the console.
    pub fn console_tail(&self, lines: usize) -> Vec<String> {
        self.shared.lock().console.tail(lines)
    }

    /// From QEMU's start to the first message, ns.
    pub fn boot_ns(&self) -> Option<u64> {
        let first = self.shared.lock().first_message?;
        u64::try_from(first.duration_since(self.started).as_nanos()).ok()
    }

    /// Bytes on the channel that belong to no frame.
    pub fn noise_bytes(&self) -> u64 {
        self.shared.lock().noise_bytes
    }

    /// Facts of this machine, with keys `guest.…`.
    pub fn facts(&self) -> Vec<Fact> {
        self.facts.clone()
    }

    /// QEMU's pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends QEMU immediately, without a shutdown of the guest.
    pub fn end(mut self) -> Ended {
        // It may end before it answers.
        let _answer = self.qmp.execute("quit", END_LIMIT);
        let status = self.child.wait(END_LIMIT).ok().flatten();
        let killed = status.is_none();
        let status = match status {
            Some(status) => words(status),
            None => self.child.kill().map_or_else(|e| e.to_string(), |s| format!("killed: {}", words(s))),
        };
        self.wait_for_end();
        let state = self.shared.lock();
        Ended {
            status,
            killed,
            console: state.console.bytes(),
            console_bytes: state.console.total_bytes(),
            notes: state.console.notes().to_vec(),
            stderr: text_of(&state.stderr),
        }
    }
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// The last lines, joined.
fn text_of(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(5)..].join("; ")
}

fn did_not_start(
    chosen: &Chosen,
    child: &mut spawn::Guarded,
    shared: &line::Shared,
    error: &std::io::Error,
) -> Problem {
    let ended = child.wait(END_LIMIT).ok().flatten();
    // Ended in any case, so that its standard error is complete.
    let _status = child.kill();
    let state = shared.lock();
    let said = shared.changed.wait_timeout_while(state, END_LIMIT, |s| !s.gone);
    let stderr = said.map_or_else(|_| String::new(), |(state, _)| text_of(&state.stderr));
    let what = format!("{} with {}", chosen.program.display(), chosen.accel);
    let why = match ended {
        Some(status) if stderr.is_empty() => format!("it ended immediately: {}", words(status)),
        Some(_) => stderr,
        None => format!("it does not start: {error}"),
    };
    Problem::new(ProblemKind::Host, what, why)
}

fn check_pins(pin: &[u32]) -> Result<(), Problem> {
    let online = holdup_host::online_cpus(&Host::real());
    let known = |cpu: &u32| {
        (*cpu as usize) < rustix::thread::CpuSet::MAX_CPU && online.as_ref().is_none_or(|all| all.contains(cpu))
    };
    match pin.iter().find(|cpu| !known(cpu)) {
        Some(cpu) => Err(Problem::usage("[guest] pin", format!("the host has no CPU {cpu} that is online"))),
        None => Ok(()),
    }
}

/// Emulation, and more CPUs than the host has, are evidence.
fn facts(request: &MachineRequest<'_>, chosen: &Chosen) -> Vec<Fact> {
    let guest = request.guest;
    let asked = |key: &str, value: String| Fact::read(format!("guest.{key}"), value, "holdup's own setting");
    let qemu = chosen.program.display().to_string();
    let mut all = vec![
        asked("accel", chosen.accel.to_owned()),
        asked("arch", request.arch.machine.to_owned()),
        asked("cpus", guest.cpus.to_string()),
        asked("cpu_model", request.arch.cpu_model(chosen.accel).to_owned()),
        asked("machine", request.arch.board.to_owned()),
        asked("memory_bytes", ((guest.memory_bytes >> 20) << 20).to_string()),
        asked("numa_nodes", guest.numa_nodes.to_string()),
        asked("channel", request.arch.channel(request.virtio_console).to_owned()),
        Fact::read("guest.host_cpus", chosen.host_cpus.to_string(), "sched_getaffinity(2)"),
        Fact::read("guest.qemu_version", chosen.qemu_version.as_str(), format!("{qemu} --version")),
    ];
    if let Some(why) = &chosen.why {
        all.push(Fact::read("guest.accel_reason", why.as_str(), "/dev/kvm"));
    }
    if !guest.pin.is_empty() {
        let cpus: Vec<String> = guest.pin.iter().map(u32::to_string).collect();
        all.push(asked("pin", cpus.join(",")));
    }
    all
}
