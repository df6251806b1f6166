//! Starting a program behind a gate: its process exists, so that collectors can attach to it, and
//! begins to run the program when the gate is opened.
//!
//! The standard library starts programs in one step, which would put the collectors' own start
//! into the measured time. Between `fork` and `execve` the child makes system calls only; the
//! rules are those of [`holdup_load::fork`].

use holdup_load::fork;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::process::Pid;
use std::ffi::CString;
use std::io;
use std::ptr;

/// What to run.
pub(crate) struct Program {
    pub(crate) file: CString,
    pub(crate) arguments: Vec<CString>,
    /// `NAME=value`, all of it.
    pub(crate) environment: Vec<CString>,
    /// Where it runs; `None` for the folder of this process.
    pub(crate) folder: Option<CString>,
}

/// A process that waits at the gate, first of its own process group.
pub(crate) struct AtGate {
    pub(crate) pid: Pid,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    gate: OwnedFd,
    verdict: OwnedFd,
}

/// The descriptors of the child's side.
struct ChildSide {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    gate: OwnedFd,
    verdict: OwnedFd,
}

/// Makes the process.
pub(crate) fn start(program: &Program) -> io::Result<AtGate> {
    let (stdout, child_stdout) = pipe()?;
    let (stderr, child_stderr) = pipe()?;
    let (child_gate, gate) = pipe()?;
    let (verdict, child_verdict) = pipe()?;
    let null = rustix::fs::open(c"/dev/null", rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC, 0.into())?;
    let side = ChildSide {
        stdin: high(null)?,
        stdout: child_stdout,
        stderr: child_stderr,
        gate: child_gate,
        verdict: child_verdict,
    };
    let arguments = pointers(&program.arguments);
    let environment = pointers(&program.environment);
    let parent = rustix::process::getpid();
    let gate_fd = gate.as_raw_fd();
    // SAFETY: the child makes system calls only, on what was made above, and ends in execve or exit.
    let pid = unsafe { fork::fork(|| child(program, &arguments, &environment, &side, parent, gate_fd)) }?;
    // The child does the same; whichever is first, the group exists before it is signalled.
    let _already_done = rustix::process::setpgid(Some(pid), Some(pid));
    rustix::io::ioctl_fionbio(&stdout, true)?;
    rustix::io::ioctl_fionbio(&stderr, true)?;
    Ok(AtGate { pid, stdout, stderr, gate, verdict })
}

impl AtGate {
    /// Lets the process continue. Gives its output when the program runs, an error when it could not be executed; in
    /// both cases the process is still to be waited for.
    pub(crate) fn open(self) -> io::Result<(OwnedFd, OwnedFd)> {
        rustix::io::write(&self.gate, b"!")?;
        let mut code = [0u8; 4];
        // A successful execve closes the other end.
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.verdict, &mut code))? {
            4 => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code))),
            _ => Ok((self.stdout, self.stderr)),
        }
    }
}

/// A pipe (reading end, writing end) that no other program inherits, beyond the standard streams.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    Ok((high(read)?, high(write)?))
}

/// The same file with a number of at least 3, so that it is not overwritten when the child sets up its streams.
fn high(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > 2 { Ok(fd) } else { Ok(rustix::io::fcntl_dupfd_cloexec(&fd, 3)?) }
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|t| t.as_ptr()).chain([ptr::null()]).collect()
}

fn child(
    program: &Program,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
    side: &ChildSide,
    parent: Pid,
    parent_gate: i32,
) -> ! {
    // SAFETY: system calls only, on memory that was made before the fork; ends in execve or _exit.
    unsafe {
        libc::setpgid(0, 0);
        fork::end_with(parent);
        fork::reset_signals(&[]);
        libc::dup2(side.stdin.as_raw_fd(), 0);
        libc::dup2(side.stdout.as_raw_fd(), 1);
        libc::dup2(side.stderr.as_raw_fd(), 2);
        // As long as this end is open here too, the gate would never see that the parent has given up.
        libc::close(parent_gate);
        let mut go = 0u8;
        if libc::read(side.gate.as_raw_fd(), (&raw mut go).cast(), 1) != 1 {
            fork::exit(0);
        }
        if program.folder.as_ref().is_none_or(|folder| libc::chdir(folder.as_ptr()) == 0) {
            libc::execve(program.file.as_ptr(), arguments.as_ptr(), environment.as_ptr());
        }
        let code = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO).to_ne_bytes();
        libc::write(side.verdict.as_raw_fd(), code.as_ptr().cast(), code.len());
        fork::exit(127)
    }
}
