//! Child processes that cannot outlive holdup.
//!
//! The kernel sends PR_SET_PDEATHSIG when the *thread* that made the child ends (prctl(2)), so all of
//! them are made by one thread that lives as long as the process.

use super::user::RunAs;
use holdup_load::Cancel;
use holdup_model::Problem;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// How a child is made.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChildOptions {
    /// The user it becomes; `None` keeps ours.
    pub(crate) user: Option<RunAs>,
    /// What the kernel sends it when holdup is gone.
    pub(crate) death_signal: i32,
    /// True if it may open as many files as its hard limit allows: each client is a socket.
    pub(crate) many_files: bool,
}

struct Request {
    command: Command,
    options: ChildOptions,
    answer: Sender<io::Result<Child>>,
}

/// Starts a child in its own session, so that Ctrl-C in the terminal reaches holdup alone, which
/// then puts things back in order.
pub(crate) fn spawn(command: Command, options: &ChildOptions) -> io::Result<Child> {
    static SPAWNER: OnceLock<Option<Sender<Request>>> = OnceLock::new();
    let gone = || io::Error::other("the thread that starts processes is gone");
    let spawner = SPAWNER.get_or_init(start_spawner).as_ref().ok_or_else(gone)?;
    let (answer, answered) = channel();
    spawner.send(Request { command, options: options.clone(), answer }).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}

fn start_spawner() -> Option<Sender<Request>> {
    let (sender, requests) = channel::<Request>();
    let work = move || {
        for Request { command, options, answer } in requests {
            // The sender is dropped only when the whole process ends.
            let _sent = answer.send(spawn_here(command, &options));
        }
    };
    std::thread::Builder::new().name("holdup-spawn".to_owned()).spawn(work).ok().map(|_| sender)
}

fn spawn_here(mut command: Command, options: &ChildOptions) -> io::Result<Child> {
    if let Some(user) = &options.user {
        // As root, std also empties the supplementary groups. All of it comes before pre_exec, and it
        // must: a change of user clears the death signal.
        command.uid(user.uid).gid(user.gid);
    }
    let parent = i32::try_from(std::process::id()).unwrap_or(0);
    let (death_signal, many_files) = (options.death_signal, options.many_files);
    let prepare = move || {
        // SAFETY: only system calls that are async-signal-safe, on values of this frame.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0 {
                return Err(io::Error::last_os_error());
            }
            // Holdup may have died before the signal was set.
            if libc::getppid() != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            // Fails only for a process group leader, which a fresh child is not.
            libc::setsid();
            if many_files {
                let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
                    limit.rlim_cur = limit.rlim_max;
                    // A refusal shows as the program's own complaint about its limit.
                    libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
                }
            }
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing and takes no lock; see above.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

/// Sends a signal to a child that has not been waited for, so its pid cannot be another's.
pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // It may have ended already.
        let _sent = rustix::process::kill_process(pid, signal);
    }
}

/// A child that is killed and reaped when it is dropped.
#[derive(Debug)]
pub(crate) struct Guarded(pub(crate) Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _killed = self.0.kill();
        }
        let _reaped = self.0.wait();
    }
}

impl Guarded {
    /// Waits for its end; `None` when it did not come in time.
    pub(crate) fn wait(
        &mut self,
        what: &str,
        limit: Duration,
        cancel: Option<&Cancel>,
    ) -> Result<Option<ExitStatus>, Problem> {
        let begun = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            let ended = self.0.try_wait().map_err(|e| Problem::host(what, e.to_string()))?;
            if ended.is_some() {
                return Ok(ended);
            }
            if cancel.is_some_and(Cancel::is_cancelled) {
                return Err(Problem::interrupted(what));
            }
            if begun.elapsed() >= limit {
                return Ok(None);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }
}

/// A command with nothing of the caller's PostgreSQL and language settings.
pub fn clean_command(program: &std::path::Path) -> Command {
    let mut command = Command::new(program);
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        if name.starts_with("PG") || name.starts_with("LC_") || name == "LANG" || name == "LANGUAGE" {
            command.env_remove(&key);
        }
    }
    command.env("LC_ALL", "C").stdin(std::process::Stdio::null());
    command
}

/// The last lines of a program's log in one line, for an error.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("; ")
}
