//! One end of one connection as its worker sees it: where in a transfer it is, and what a single call moves on.

use crate::counts::{Flow, Side, add};
use crate::sockets;
use holdup_load::clock::now_ns;
use holdup_load::record::Record;
use std::io;
use std::os::fd::RawFd;

/// The most that one call moves: larger transfers are made of several, so that a buffer stays within a cache.
pub(crate) const MOST_CALL_BYTES: u64 = 1 << 20;
/// A transfer begins with the moment at which it was due, where it has room for that.
pub(crate) const STAMP_BYTES: usize = size_of::<u64>();

/// How large a worker's buffer is for transfers of some size.
pub(crate) fn buffer_bytes(size: u64) -> usize {
    size.min(MOST_CALL_BYTES) as usize
}

/// What one call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// Bytes; the transfer continues.
    Some,
    /// The last bytes of a transfer.
    Whole,
    /// Nothing: the call would have to wait.
    Wait,
    /// The other end is done.
    End,
}

/// One end of one connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    pub(crate) socket: RawFd,
    /// The connection's number, which is its slot on the board.
    pub(crate) connection: usize,
    pub(crate) sends: bool,
    pub(crate) is_udp: bool,
    /// Bytes of one transfer.
    pub(crate) size: u64,
    /// How far the transfer under way has come.
    at: u64,
    stamp: [u8; STAMP_BYTES],
}

impl Stream {
    pub(crate) fn new(socket: RawFd, connection: usize, sends: bool, is_udp: bool, size: u64) -> Self {
        Stream { socket, connection, sends, is_udp, size, at: 0, stamp: [0; STAMP_BYTES] }
    }

    /// True if a transfer is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.at > 0
    }

    /// The moment at which the transfer that begins now was due.
    #[inline(always)]
    pub(crate) fn due(&mut self, at_ns: u64) {
        self.stamp = at_ns.to_ne_bytes();
    }

    /// Sends on with one call.
    #[inline]
    pub(crate) fn send(&mut self, buffer: &mut [u8], flow: &Flow, flags: i32) -> io::Result<Moved> {
        let at = (self.at % buffer.len() as u64) as usize;
        let end = buffer.len().min(at + usize::try_from(self.size - self.at).unwrap_or(usize::MAX));
        if self.at < STAMP_BYTES as u64 {
            let stamp = STAMP_BYTES.min(end);
            buffer[..stamp].copy_from_slice(&self.stamp[..stamp]);
        }
        let sent = match sockets::send(self.socket, &buffer[at..end], flags) {
            Ok(sent) => sent,
            Err(e) if sockets::is_wait(&e) || e.raw_os_error() == Some(libc::ENOBUFS) => return Ok(Moved::Wait),
            Err(e) => return Err(e),
        };
        Ok(self.moved(sent, &flow.sent.0))
    }

    /// Receives on with one call. A transfer that is whole within the window is counted in `latency`.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
        flow: &Flow,
        flags: i32,
        latency: Option<&Record>,
    ) -> io::Result<Moved> {
        let wanted = buffer.len().min(usize::try_from(self.size - self.at).unwrap_or(usize::MAX));
        let got = match sockets::receive(self.socket, &mut buffer[..wanted], flags) {
            Ok(0) if !self.is_udp => return Ok(Moved::End),
            Ok(got) => got,
            Err(e) if sockets::is_wait(&e) => return Ok(Moved::Wait),
            Err(e) => return Err(e),
        };
        if self.at < STAMP_BYTES as u64 {
            let at = self.at as usize;
            let stamp = got.min(STAMP_BYTES - at);
            self.stamp[at..at + stamp].copy_from_slice(&buffer[..stamp]);
        }
        let moved = self.moved(got, &flow.received.0);
        if moved == Moved::Whole
            && let Some(latency) = latency
            && self.size >= STAMP_BYTES as u64
        {
            latency.count(now_ns().saturating_sub(u64::from_ne_bytes(self.stamp)));
        }
        Ok(moved)
    }

    #[inline(always)]
    fn moved(&mut self, bytes: usize, side: &Side) -> Moved {
        add(&side.bytes, bytes as u64);
        self.at += bytes as u64;
        // A datagram of any size is whole.
        if self.at >= self.size || self.is_udp {
            self.at = 0;
            add(&side.transfers, 1);
            return Moved::Whole;
        }
        Moved::Some
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Flows;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::Ordering;

    /// Moves two transfers through a pair with buffers of another size, and gives what was counted.
    fn carried(size: u64, buffer: usize, piece: usize) -> (u64, u64, u64, u64) {
        let (client, server) = UnixStream::pair().expect("a pair");
        let flows = Flows::new(1).expect("maps");
        let latency = holdup_load::board::Board::<(), Record>::new(1).expect("maps");
        let mut sender = Stream::new(client.as_raw_fd(), 0, true, false, size);
        let mut receiver = Stream::new(server.as_raw_fd(), 0, false, false, size);
        let (mut out, mut into) = (vec![0xffu8; buffer], vec![0u8; piece]);
        let mut whole = 0;
        while whole < 2 {
            if !sender.is_under_way() {
                sender.due(now_ns());
            }
            // Another connection of the same worker leaves its own stamp in the buffer.
            let before = sender.is_under_way();
            let moved = sender.send(&mut out, flows.slot(0), libc::MSG_DONTWAIT).expect("sends");
            out[..buffer.min(8)].fill(0xff);
            assert!(before || moved != Moved::Wait);
            while let Moved::Some | Moved::Whole =
                receiver.receive(&mut into, flows.slot(0), libc::MSG_DONTWAIT, Some(latency.slot(0))).expect("receives")
            {
                whole += u64::from(!receiver.is_under_way());
            }
        }
        let (sent, received) = (&flows.slot(0).sent.0, &flows.slot(0).received.0);
        // A stamp that was mixed up would be a moment far away.
        assert!(latency.slot(0).longest_ns() < 60_000_000_000);
        assert_eq!(sent.bytes.load(Ordering::Relaxed), received.bytes.load(Ordering::Relaxed));
        (
            received.bytes.load(Ordering::Relaxed),
            received.transfers.load(Ordering::Relaxed),
            sent.transfers.load(Ordering::Relaxed),
            latency.slot(0).total(),
        )
    }

    #[test]
    fn transfers_are_whole_however_they_are_cut() {
        assert_eq!(carried(100, 100, 100), (200, 2, 2, 2));
        assert_eq!(carried(100, 100, 3), (200, 2, 2, 2), "the stamp comes in three pieces");
        assert_eq!(carried(1_000_000, 1_000_000, 70_000), (2_000_000, 2, 2, 2));
        assert_eq!(carried(1_000_003, 4096, 1 << 20), (2_000_006, 2, 2, 2), "several calls each");
        assert_eq!(carried(7, 7, 7), (14, 2, 2, 0), "no room for a stamp");
        assert_eq!(carried(1, 1, 1), (2, 2, 2, 0));
    }
}
