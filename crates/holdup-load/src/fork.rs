//! fork(2) from a process that may have several threads.
//!
//! Only the forking thread exists in a child, and a lock of the C library or of Rust that another thread held at that
//! moment stays locked there for ever. So a child takes none: everything it needs is made before, and from `fork` to
//! `_exit` it makes system calls only; it neither allocates nor prints nor unwinds, and never returns into the code around
//! it. Signals are blocked from before the fork until the child has reset their handlers, so that no handler of holdup runs
//! in a child.
//!
//! Our own, because `std::process` and rustix have no fork without an exec: what runs here is a part of holdup, or a program
//! that waits for a start signal.

use rustix::process::Pid;
use std::io;
use std::mem::MaybeUninit;

/// Makes a process that runs `child`, with all signals blocked at first.
///
/// # Errors
/// The kernel's.
///
/// # Safety
/// `child` keeps to the rules at the head of this file, and ends with [`exit`] or execve(2): to drop what it holds would free
/// memory.
pub unsafe fn fork(child: impl FnOnce()) -> io::Result<Pid> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are written before they are read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    // SAFETY: the child keeps to the rules, by the contract of this function.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let _guard = NeverReturn;
        child();
        exit(70);
    }
    let error = io::Error::last_os_error();
    // SAFETY: `before` was written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    Pid::from_raw(pid).filter(|_| pid > 0).ok_or(error)
}

/// Ends the process when it is dropped, so that an unwinding panic cannot leave the child's part of the code.
struct NeverReturn;

impl Drop for NeverReturn {
    fn drop(&mut self) {
        exit(70);
    }
}

/// Ends a child without running anything of its parent's.
pub fn exit(code: i32) -> ! {
    // SAFETY: a system call that does not return.
    unsafe { libc::_exit(code) }
}

/// In a child: the kernel kills it when the thread that made it ends (PR_SET_PDEATHSIG, prctl(2)).
pub fn end_with(parent: Pid) {
    // SAFETY: plain system calls; each may be made in a forked child.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // The parent may have died before the line above.
        if libc::getppid() != parent.as_raw_nonzero().get() {
            exit(0);
        }
    }
}

/// In a child: every signal has its default action but those ignored, and none is blocked.
pub fn reset_signals(ignored: &[libc::c_int]) {
    let mut none = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: plain system calls; each may be made in a forked child. The set is written before it is read.
    unsafe {
        for signal in 1..32 {
            libc::signal(signal, if ignored.contains(&signal) { libc::SIG_IGN } else { libc::SIG_DFL });
        }
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}
