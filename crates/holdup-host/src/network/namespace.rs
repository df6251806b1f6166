//! Network namespaces without a name.

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A network namespace that lives as long as this, a thread or a socket in it, or another open file of it.
///
/// Nothing names it in a file system, so that the kernel removes it with all its links when the process that made it
/// ends in any way (`net/core/net_namespace.c:cleanup_net`, v6.18; network_namespaces(7)).
#[derive(Debug)]
pub(super) struct Namespace {
    file: File,
}

impl Namespace {
    /// Makes one with nothing but a loopback link, which is down. The calling thread stays where it is.
    pub(super) fn make() -> io::Result<Self> {
        in_thread(|| {
            // SAFETY: the flag touches neither memory nor open files; only this thread changes its namespace.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
            Ok(Namespace { file: File::open("/proc/thread-self/ns/net")? })
        })?
    }

    /// The one that this file is of (`/proc/PID/ns/net`).
    pub(super) fn of(file: File) -> Self {
        Namespace { file }
    }

    /// Moves the calling thread into it.
    pub(super) fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Runs something within it, in a new thread.
    pub(super) fn within<T: Send>(&self, job: impl FnOnce() -> T + Send) -> io::Result<T> {
        in_thread(|| self.enter().map(|()| job()))?
    }

    /// Another hold on the same one.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Namespace { file: self.file.try_clone()? })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn in_thread<T: Send>(job: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("holdup-netns".to_owned()).spawn_scoped(scope, job)?;
        // A panic of the job continues in the calling thread.
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
