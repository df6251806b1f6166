//! How long a waiter looks before it sleeps, and what a process remembers of its locks.
//!
//! A look takes the line of the lock from its holder's cache. So looks are few, and each pause is twice as long as the one before:
//! with one look a pause, a waiter halves the speed of a holder that comes back immediately.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Looks before a sleep. The pauses between them are 1, 2, 4 and 8: about 0.4 µs here, a tenth of a sleep and a wake-up.
/// More was slower wherever threads outnumber CPUs (the journal has the numbers).
#[cfg(not(loom))]
pub(crate) const LOOKS: u32 = 4;
#[cfg(loom)]
pub(crate) const LOOKS: u32 = 1;

/// Pauses between look `n` and the next.
#[inline]
pub(crate) fn pause(look: u32) {
    for _ in 0..1u32 << look {
        relax();
    }
}

#[cfg(not(loom))]
#[inline(always)]
fn relax() {
    core::hint::spin_loop();
}

#[cfg(loom)]
fn relax() {
    loom::thread::yield_now();
}

/// The least time between two hand-overs of a lock, in microseconds. Each costs a switch of context while the lock is held;
/// so often it costs 2 to 3 %.
#[cfg(not(loom))]
const BETWEEN_HANDOVERS_US: u32 = 300;

/// When locks were last handed over, by a hash of their address, in microseconds. Locks that share a place share the limit,
/// and processes do not: it is about cost alone.
#[cfg(not(loom))]
static HANDED_OVER_US: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

/// Whether the lock at an address may be handed over now. Counts as done when it may.
#[cfg(not(loom))]
pub(crate) fn may_hand_over(address: usize) -> bool {
    let last = &HANDED_OVER_US[(address >> 3 ^ address >> 9) % HANDED_OVER_US.len()];
    let (now, before) = (crate::time::now_us(), last.load(Relaxed));
    now.wrapping_sub(before) > BETWEEN_HANDOVERS_US && last.compare_exchange(before, now, Relaxed, Relaxed).is_ok()
}

/// Always, so that models meet hand-overs.
#[cfg(loom)]
pub(crate) fn may_hand_over(_address: usize) -> bool {
    true
}
