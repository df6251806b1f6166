//! The memory in which the two ends of one trial count.

use holdup_load::board::{Board, CachePadded, Shareable, phase};
use holdup_load::clock::now_ns;
use holdup_load::record::Record;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The slot of the end that sends.
pub(crate) const CLIENT: usize = 0;
/// The slot of the end that receives and answers.
pub(crate) const SERVER: usize = 1;
/// How many ends there are.
pub(crate) const ENDS: usize = 2;

/// How an end's work ended.
pub(crate) mod ending {
    // 0 while it works.
    /// As asked, with everything accounted or after it waited in vain.
    pub(crate) const DONE: u32 = 1;
    /// The other end closed the connection.
    pub(crate) const CLOSED: u32 = 2;
    /// The kernel refused something; the errno is in [`super::Slot::detail`].
    pub(crate) const REFUSED: u32 = 3;
    /// A message had a wrong size, which is in [`super::Slot::detail`].
    pub(crate) const WRONG_SIZE: u32 = 4;
    /// The other end took only a part of a message and then no more for a long time.
    pub(crate) const STUCK: u32 = 6;
    /// A message came out of a byte stream with another number than its place.
    pub(crate) const GARBLED: u32 = 5;
}

/// CPU time and deliveries at one moment. Written by an end, read after it has ended.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Mark {
    at_ns: AtomicU64,
    cpu_ns: AtomicU64,
    delivered: AtomicU64,
}

/// The same as plain numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) at_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) delivered: u64,
}

impl Mark {
    fn take(&self, delivered: u64) {
        if self.at_ns.load(Ordering::Relaxed) != 0 {
            return;
        }
        self.cpu_ns.store(own_cpu_ns(), Ordering::Relaxed);
        self.delivered.store(delivered, Ordering::Relaxed);
        self.at_ns.store(now_ns(), Ordering::Release);
    }

    /// The account; `None` when it was never taken.
    pub(crate) fn account(&self) -> Option<Account> {
        let at_ns = self.at_ns.load(Ordering::Acquire);
        (at_ns != 0).then(|| Account {
            at_ns,
            cpu_ns: self.cpu_ns.load(Ordering::Relaxed),
            delivered: self.delivered.load(Ordering::Relaxed),
        })
    }
}

/// CPU time of the calling thread, user and system, ns: clock_gettime(2) CLOCK_THREAD_CPUTIME_ID.
fn own_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// One end's part of the region. Everything is counted over the whole trial unless it says otherwise.
#[repr(C, align(128))]
pub(crate) struct Slot {
    /// Messages (client) or answers (server) that the kernel took, written after each.
    pub(crate) sent: CachePadded<AtomicU64>,
    /// Messages (server) or answers (client) that came for the first time, and their payload in bytes; written after each.
    pub(crate) received: CachePadded<AtomicU64>,
    pub(crate) received_bytes: AtomicU64,
    /// Messages that asked for an answer (client).
    pub(crate) asked: AtomicU64,
    /// What the kernel had no room for at the moment of sending.
    pub(crate) not_sent: AtomicU64,
    /// Arrival after a higher number.
    pub(crate) late: AtomicU64,
    /// Arrival once more; in no other count.
    pub(crate) again: AtomicU64,
    /// Answers that were no longer waited for.
    pub(crate) timeouts: AtomicU64,
    /// 1 when nothing more will be sent by this end.
    pub(crate) sent_all: AtomicU32,
    /// See [`ending`].
    pub(crate) ending: AtomicU32,
    /// What belongs to the ending.
    pub(crate) detail: AtomicU64,
    opened: Mark,
    closed: Mark,
    /// Client: from sending to the answer. Server: from sending to receiving. Of messages sent in the window.
    pub(crate) latency: Record,
    /// Client: from when a message should have been sent to when it was. In the window.
    pub(crate) lag: Record,
}

impl Slot {
    /// Takes the account at the edges of the window, once each. To be called when the phase has changed.
    #[cold]
    pub(crate) fn saw(&self, now: u32, delivered: u64) {
        if now >= phase::OPEN {
            self.opened.take(delivered);
        }
        if now >= phase::CLOSED {
            self.closed.take(delivered);
        }
    }

    /// The accounts at both edges of the window.
    pub(crate) fn accounts(&self) -> Option<(Account, Account)> {
        Some((self.opened.account()?, self.closed.account()?))
    }

    /// Whether this end works no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ending.load(Ordering::Acquire) != 0
    }

    /// Whether this end gave up.
    pub(crate) fn has_broken(&self) -> bool {
        self.ending.load(Ordering::Acquire) > ending::DONE
    }

    /// Whether nothing more will come from this end.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.sent_all.load(Ordering::Acquire) != 0
    }

    /// Adds one to a count that only the slot's own end writes.
    #[inline]
    pub(crate) fn add(count: &AtomicU64, n: u64) {
        count.store(count.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }
}

/// The memory of one trial: a [`Slot`] for each end.
pub(crate) type Region = Board<(), Slot>;

// SAFETY: atomics only.
unsafe impl Shareable for Slot {}
