//! One run at a time on one host.
//!
//! The lock is an abstract Unix socket: it lives as long as the process that
//! bound it, leaves no file behind, and tells the holder's pid to anyone who
//! connects (SO_PEERCRED). It opens no port. It spans users, not network namespaces.

use holdup_model::Problem;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with, sockopt,
};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

const NAME: &[u8] = b"holdup-run";

/// Held while a run is under way.
#[derive(Debug)]
pub struct HostLock {
    _socket: OwnedFd,
}

impl HostLock {
    /// Takes the lock, waiting at most `wait` for another run to end.
    ///
    /// # Errors
    /// When another run has it; the error names its pid. When `cancelled` says so while waiting.
    pub fn take(wait: Duration, cancelled: &dyn Fn() -> bool) -> Result<Self, Problem> {
        Self::take_named(NAME, wait, cancelled)
    }

    fn take_named(name: &[u8], wait: Duration, cancelled: &dyn Fn() -> bool) -> Result<Self, Problem> {
        let address = SocketAddrUnix::new_abstract_name(name).map_err(failed)?;
        let begun = Instant::now();
        loop {
            let socket = unix_socket().map_err(failed)?;
            match bind(&socket, &address) {
                Ok(()) => {
                    listen(&socket, 8).map_err(failed)?;
                    return Ok(HostLock { _socket: socket });
                }
                Err(rustix::io::Errno::ADDRINUSE) => {}
                Err(e) => return Err(failed(e)),
            }
            if cancelled() {
                return Err(Problem::interrupted("waiting for another run on this host"));
            }
            if begun.elapsed() >= wait {
                return Err(taken(holder(&address)));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn unix_socket() -> rustix::io::Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// The pid of the process that holds the lock, if it can be asked.
fn holder(address: &SocketAddrUnix) -> Option<i32> {
    let socket = unix_socket().ok()?;
    connect(&socket, address).ok()?;
    sockopt::socket_peercred(&socket).ok().map(|peer| peer.pid.as_raw_nonzero().get())
}

fn taken(pid: Option<i32>) -> Problem {
    let by = pid.map_or_else(|| "another process".to_owned(), |pid| format!("pid {pid}"));
    Problem::host("this host", format!("another holdup run is under way ({by})"))
        .hint("wait for it to end, or give --wait to queue behind it: two runs at once would measure each other")
}

fn failed(e: rustix::io::Errno) -> Problem {
    Problem::host("the lock of this host", e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_run_is_refused_with_the_pid_of_the_first() {
        let name = format!("holdup-test-{}", std::process::id()).into_bytes();
        let first = HostLock::take_named(&name, Duration::ZERO, &|| false).expect("free");
        let refused = HostLock::take_named(&name, Duration::ZERO, &|| false).expect_err("taken");
        assert!(refused.why.contains(&format!("pid {}", std::process::id())), "{refused}");
        let cancelled = HostLock::take_named(&name, Duration::from_secs(60), &|| true).expect_err("cancelled");
        assert_eq!(cancelled.kind, holdup_model::ProblemKind::Interrupted);
        drop(first);
        HostLock::take_named(&name, Duration::ZERO, &|| false).expect("free again");
    }
}
