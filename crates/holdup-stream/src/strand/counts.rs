//! What the strands of a profile count, and the gates at which they begin their transactions together.

use crate::counts::add;
use crate::profile::MOST_TRANSACTIONS;
use holdup_load::board::{Board, Shareable, Stage};
use holdup_load::clock::now_ns;
use holdup_load::record::Record;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// How long a strand waits at most until it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);
/// One gate for each transaction, and one at the end.
const GATES: usize = MOST_TRANSACTIONS + 1;

#[repr(C)]
pub(crate) struct Gates {
    /// How many are open.
    open: AtomicU32,
    arrived: [AtomicU32; GATES],
    begun_ns: [AtomicU64; GATES],
}

// SAFETY: atomics.
unsafe impl Shareable for Gates {}

impl Gates {
    /// Says that a strand is there and waits until the gate opens. `None` when it is to end instead.
    pub(crate) fn pass(&self, gate: usize, stage: &Stage) -> Option<u64> {
        self.arrived[gate].fetch_add(1, Ordering::SeqCst);
        loop {
            let open = self.open.load(Ordering::SeqCst);
            if stage.stopped() {
                return None;
            }
            if open as usize > gate {
                return Some(self.begun_ns[gate].load(Ordering::SeqCst));
            }
            let at_most = rustix::thread::futex::Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
            let flags = rustix::thread::futex::Flags::empty();
            let _again = rustix::thread::futex::wait(&self.open, flags, open, Some(&at_most));
        }
    }

    /// Wakes the waiting threads, which look whether they are to end.
    pub(crate) fn wake(&self) {
        let _woken = rustix::thread::futex::wake(&self.open, rustix::thread::futex::Flags::empty(), u32::MAX >> 1);
    }

    /// How many strands have come to a gate.
    pub(crate) fn arrived(&self, gate: usize) -> usize {
        self.arrived[gate].load(Ordering::SeqCst) as usize
    }

    /// Opens the next gate. Returns when that was, ns.
    pub(crate) fn open_next(&self) -> u64 {
        let gate = self.open.load(Ordering::SeqCst);
        let now = now_ns();
        self.begun_ns[gate as usize].store(now, Ordering::SeqCst);
        self.open.store(gate + 1, Ordering::SeqCst);
        self.wake();
        now
    }
}

/// What a strand did in one transaction.
#[repr(C)]
pub(crate) struct Part {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    /// Transfers that were received whole, and that were sent whole.
    pub(crate) receives: AtomicU64,
    pub(crate) sends: AtomicU64,
    pub(crate) turns: AtomicU64,
    /// Steps that failed and may.
    pub(crate) failed: AtomicU64,
    pub(crate) ended_ns: AtomicU64,
}

/// One strand. It alone writes.
#[repr(C)]
pub(crate) struct Slot {
    /// How long each transfer took.
    pub(crate) latency: Record,
    pub(crate) tid: AtomicI32,
    failure: AtomicU64,
    /// Received after the transaction in which it was sent, before a connection was closed.
    pub(crate) drained: AtomicU64,
    pub(crate) datagrams_sent: AtomicU64,
    pub(crate) datagrams_received: AtomicU64,
    pub(crate) datagrams_dropped: AtomicU64,
    /// Connections that others made.
    pub(crate) strangers: AtomicU64,
    /// The most connections that were open at the same time.
    pub(crate) held: AtomicU64,
    pub(crate) parts: [Part; MOST_TRANSACTIONS],
}

// SAFETY: atomics.
unsafe impl Shareable for Slot {}

/// The memory of a pass: the client's strands first, then the server's in the same order.
pub(crate) type Strands = Board<Gates, Slot>;

impl Slot {
    /// Says why the strand gave up: what failed at which line of the profile.
    pub(crate) fn give_up(&self, line: u32, error: &io::Error) {
        let errno = error.raw_os_error().unwrap_or(libc::EIO) as u32;
        self.failure.store(1 << 63 | u64::from(line) << 32 | u64::from(errno), Ordering::Release);
    }

    /// Why the strand gave up, in words.
    pub(crate) fn failure(&self) -> Option<String> {
        let packed = self.failure.load(Ordering::Acquire);
        if packed == 0 {
            return None;
        }
        let error = io::Error::from_raw_os_error(packed as u32 as i32);
        Some(match (packed << 1 >> 33) as u32 {
            0 => format!("could not begin: {error}"),
            line => format!("failed at line {line} of the profile: {error}"),
        })
    }

    /// Everything that was sent, and everything that was received, in bytes.
    pub(crate) fn life(&self) -> (u64, u64) {
        let sum = |of: fn(&Part) -> &AtomicU64| self.parts.iter().map(|p| of(p).load(Ordering::Relaxed)).sum::<u64>();
        (sum(|p| &p.sent), sum(|p| &p.received) + self.drained.load(Ordering::Relaxed))
    }

    pub(crate) fn holds(&self, open: usize) {
        let open = open as u64;
        let held = self.held.load(Ordering::Relaxed);
        add(&self.held, open.saturating_sub(held));
    }
}
