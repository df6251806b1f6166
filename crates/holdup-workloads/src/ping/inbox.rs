//! Where messages come in, from datagrams or from a stream of bytes.

use holdup_load::clock::now_ns;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::os::fd::{BorrowedFd, RawFd};

/// Bytes that one read of a stream may bring, beside one whole message.
const CHUNK: usize = 256 << 10;

/// What a look into the inbox found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// One message, in [`Inbox::message`].
    Message,
    /// None came, or not yet all of it.
    Nothing,
    /// The other end closed the stream.
    Closed,
    /// The kernel refused.
    Refused(Errno),
}

/// Reads one socket. All memory is taken when it is made.
pub(crate) struct Inbox {
    fd: RawFd,
    stream: bool,
    buffer: Vec<u8>,
    /// Where the current message is.
    begin: usize,
    end: usize,
    /// Where the bytes end that were read.
    filled: usize,
    arrived_ns: u64,
}

impl Inbox {
    /// For messages of up to `largest` bytes from `fd`, which stays open for as long as the inbox is used.
    pub(crate) fn new(fd: RawFd, stream: bool, largest: usize) -> Self {
        // One byte more, so that a datagram that is too long shows.
        let bytes = if stream { largest + CHUNK } else { largest + 1 };
        Inbox { fd, stream, buffer: vec![0; bytes], begin: 0, end: 0, filled: 0, arrived_ns: 0 }
    }

    /// The current message, to be answered or read.
    #[inline]
    pub(crate) fn message(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// When the current message was in our hands, CLOCK_MONOTONIC.
    #[inline]
    pub(crate) fn arrived_ns(&self) -> u64 {
        self.arrived_ns
    }

    /// Bytes of a stream that are here and were not looked at.
    pub(crate) fn left(&self) -> usize {
        self.filled.saturating_sub(self.end)
    }

    /// Looks for the next message, which has `size` bytes when it comes out of a stream. Waits as long as the socket's
    /// own timeout says, or not at all.
    #[inline]
    pub(crate) fn receive(&mut self, size: usize, wait: bool) -> Received {
        let flags = if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        if self.stream { self.look_into_stream(size, flags) } else { self.look_for_datagram(flags) }
    }

    #[inline]
    fn look_for_datagram(&mut self, flags: RecvFlags) -> Received {
        match receive(self.fd, &mut self.buffer, flags) {
            Ok(length) => {
                self.arrived_ns = now_ns();
                (self.begin, self.end) = (0, length);
                Received::Message
            }
            Err(error) => refused(error),
        }
    }

    #[inline]
    fn look_into_stream(&mut self, size: usize, flags: RecvFlags) -> Received {
        if self.filled - self.end >= size {
            (self.begin, self.end) = (self.end, self.end + size);
            return Received::Message;
        }
        // What is left of the last read is less than a message and moves to the begin.
        self.buffer.copy_within(self.end..self.filled, 0);
        (self.begin, self.filled, self.end) = (0, self.filled - self.end, 0);
        match receive(self.fd, &mut self.buffer[self.filled..], flags) {
            Ok(0) => Received::Closed,
            Ok(length) => {
                self.arrived_ns = now_ns();
                self.filled += length;
                if self.filled < size {
                    return Received::Nothing;
                }
                self.end = size;
                Received::Message
            }
            Err(error) => refused(error),
        }
    }
}

fn refused(error: Errno) -> Received {
    match error {
        Errno::AGAIN | Errno::INTR => Received::Nothing,
        other => Received::Refused(other),
    }
}

#[inline]
fn receive(fd: RawFd, to: &mut [u8], flags: RecvFlags) -> Result<usize, Errno> {
    // SAFETY: the file is open: see `Inbox::new`.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::net::recv(fd, to, flags).map(|(length, _)| length)
}
