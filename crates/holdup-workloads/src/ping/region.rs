//! The memory in which the two ends of one trial count.

use holdup_load::account::Marks;
use holdup_load::board::{Board, CachePadded, Shareable};
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
    /// What was delivered, and CPU time, when this end saw the window open and close.
    pub(crate) marks: Marks,
    /// Client: from sending to the answer. Server: from sending to receiving. Of messages sent in the window.
    pub(crate) latency: Record,
    /// Client: from when a message should have been sent to when it was. In the window.
    pub(crate) lag: Record,
}

impl Slot {
    /// True if this end works no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.ending.load(Ordering::Acquire) != 0
    }

    /// True if this end gave up.
    pub(crate) fn has_broken(&self) -> bool {
        self.ending.load(Ordering::Acquire) > ending::DONE
    }

    /// True if nothing more will come from this end.
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
