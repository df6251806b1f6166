//! Where messages go out.

use rustix::io::Errno;
use rustix::net::SendFlags;
use std::os::fd::{BorrowedFd, RawFd};

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The kernel took all of it.
    All,
    /// The kernel took as many bytes of what was left; the rest must follow.
    Part(usize),
    /// There was no room.
    NoRoom,
    /// The other end is gone.
    Closed,
    /// The kernel refused.
    Refused(Errno),
}

/// Writes one socket, which stays open for as long as the outbox is used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outbox(pub(crate) RawFd);

impl Outbox {
    /// Sends what is left of a message. Waits as long as the socket's own timeout says, or not at all.
    #[inline]
    pub(crate) fn send(self, rest: &[u8], wait: bool) -> Sent {
        let flags = if wait { SendFlags::NOSIGNAL } else { SendFlags::NOSIGNAL | SendFlags::DONTWAIT };
        // SAFETY: the file is open: see `Outbox`.
        let fd = unsafe { BorrowedFd::borrow_raw(self.0) };
        match rustix::net::send(fd, rest, flags) {
            Ok(length) if length == rest.len() => Sent::All,
            Ok(length) => Sent::Part(length),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Sent::NoRoom,
            Err(Errno::PIPE | Errno::CONNRESET) => Sent::Closed,
            Err(other) => Sent::Refused(other),
        }
    }
}
