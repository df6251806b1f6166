//! A process that outlives holdup for a moment, to end what holdup can no longer end.
//!
//! `PR_SET_PDEATHSIG` reaches the one process that asked for it. The processes that a program has made itself would
//! continue when holdup is killed. So each process group has a member more, which does nothing but wait for the death of
//! its parent, and then kills its group. Because it is a member, the number of the group is its own as long as it lives.

use holdup_load::fork;
use rustix::process::{Pid, Signal};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// What the kernel sends it when its parent, the thread that made it, has died.
const DEATH: i32 = libc::SIGUSR1;

/// The guard of a process group. Dropping it ends it.
pub(crate) struct Guard {
    pid: Pid,
}

impl Guard {
    /// Makes the guard of the group of a child that was not yet waited for.
    pub(crate) fn start(group: Pid) -> io::Result<Self> {
        let parent = rustix::process::getpid().as_raw_nonzero().get();
        let number = group.as_raw_nonzero().get();
        // SAFETY: the child makes system calls only, and ends in exit or is killed.
        let pid = unsafe { fork::fork(|| child(number, parent)) }?;
        // The child does the same; whichever is first, it is in the group when this returns.
        let _already_done = rustix::process::setpgid(Some(pid), Some(group));
        Ok(Guard { pid })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _gone_already = rustix::process::kill_process(self.pid, Signal::KILL);
        let _nothing_to_report = rustix::io::retry_on_intr(|| {
            rustix::process::waitpid(Some(self.pid), rustix::process::WaitOptions::empty())
        });
    }
}

/// All signals are blocked here, so that one for the group does not end its guard; SIGKILL does.
fn child(group: i32, parent: i32) -> ! {
    // SAFETY: system calls only; it ends in _exit or is killed.
    unsafe {
        libc::setpgid(0, group);
        // Outside of the group, the signal below would reach holdup's own.
        if libc::getpgrp() != group {
            fork::exit(1);
        }
        // What holdup has open must not stay open because of this process. Before Linux 5.9 it does, for as long as a
        // trial takes.
        libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, DEATH);
        let mut death = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(death.as_mut_ptr());
        libc::sigaddset(death.as_mut_ptr(), DEATH);
        while libc::getppid() == parent {
            libc::sigwaitinfo(death.as_ptr(), ptr::null_mut());
        }
        libc::kill(0, libc::SIGKILL);
        fork::exit(0)
    }
}
