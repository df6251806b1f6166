//! QEMU as a process that cannot outlive holdup.
//!
//! The kernel sends PR_SET_PDEATHSIG when the *thread* that made the child ends (prctl(2)), so every QEMU is made by
//! one thread that lives as long as the process. No signal handler is needed, so that SIGKILL of holdup ends it too.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

pub(super) struct Program {
    pub(super) file: PathBuf,
    pub(super) arguments: Vec<OsString>,
    /// Its working directory.
    pub(super) folder: PathBuf,
    /// Descriptors that it inherits under the same numbers; closed here once it runs.
    pub(super) inherited: Vec<OwnedFd>,
}

type Request = (Program, Sender<io::Result<Child>>);

/// Starts a program as the leader of a new process group: Ctrl-C in the terminal reaches holdup alone.
pub(super) fn spawn(program: Program) -> io::Result<Child> {
    static SPAWNER: OnceLock<Option<Sender<Request>>> = OnceLock::new();
    let gone = || io::Error::other("the thread that starts QEMU is gone");
    let spawner = SPAWNER.get_or_init(start_spawner).as_ref().ok_or_else(gone)?;
    let (answer, answered) = channel();
    spawner.send((program, answer)).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}

fn start_spawner() -> Option<Sender<Request>> {
    let (sender, requests) = channel::<Request>();
    let work = move || {
        for (program, answer) in requests {
            // This channel closes only when the process ends.
            let _sent = answer.send(spawn_here(program));
        }
    };
    std::thread::Builder::new().name("holdup-qemu".to_owned()).spawn(work).ok().map(|_| sender)
}

fn spawn_here(program: Program) -> io::Result<Child> {
    let Program { file, arguments, folder, inherited } = program;
    let mut command = Command::new(file);
    command.args(arguments).env("LC_ALL", "C").current_dir(folder).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let parent = i32::try_from(std::process::id()).unwrap_or(0);
    let numbers: Vec<i32> = inherited.iter().map(AsRawFd::as_raw_fd).collect();
    let prepare = move || {
        // SAFETY: only system calls that are async-signal-safe, on values that were made before the fork.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) != 0 {
                return Err(io::Error::last_os_error());
            }
            // Holdup may have died before the signal was set.
            if libc::getppid() != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            // Only in the child: processes started concurrently do not inherit them.
            for number in &numbers {
                if libc::fcntl(*number, libc::F_SETFD, 0) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            // A crash of QEMU would write the guest's memory to the disk. A refusal costs only that.
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing and takes no lock; see above.
    unsafe { command.pre_exec(prepare) };
    let child = command.spawn();
    drop(inherited);
    child
}

/// A child that is killed and reaped on drop.
#[derive(Debug)]
pub(super) struct Guarded(Child);

impl Guarded {
    pub(super) fn new(child: Child) -> Self {
        Guarded(child)
    }

    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(super) fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.0.stderr.take()
    }

    /// Waits for its end; `None` after the limit.
    pub(super) fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let begun = Instant::now();
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            if begun.elapsed() >= limit {
                return Ok(None);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }

    pub(super) fn kill(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.0.try_wait()? {
            return Ok(status);
        }
        // It may have ended since; that is what is wanted.
        let _killed = self.0.kill();
        self.0.wait()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _status = self.kill();
    }
}
