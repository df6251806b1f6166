//! How long a waiter looks before it sleeps, and what a process remembers of its locks.
//!
//! A look takes the line of the lock from its holder's cache. So looks are few, and each pause is twice as long as the one before:
//! with a look every 30 ns, which finds a lock that is held for a microsecond soonest, a waiter cuts the speed of a holder that comes
//! back immediately to a third.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Looks of a waiter that has not slept, and of one that was woken: it holds up a CPU that may have other work. Pauses of 4 to
/// 256 instructions `pause` lie between: 0.1 to 7 µs here, 14 µs in all, about what a sleep and a wake-up cost.
#[cfg(not(loom))]
pub(crate) const LOOKS: u32 = 7;
#[cfg(not(loom))]
pub(crate) const LOOKS_WOKEN: u32 = 2;
#[cfg(loom)]
pub(crate) const LOOKS: u32 = 1;
#[cfg(loom)]
pub(crate) const LOOKS_WOKEN: u32 = 1;

/// The pause between look `n` and the next.
#[cfg(not(loom))]
#[inline]
pub(crate) fn pause(look: u32) {
    for _ in 0..4u32 << look {
        core::hint::spin_loop();
    }
}

#[cfg(loom)]
pub(crate) fn pause(_look: u32) {
    loom::thread::yield_now();
}

/// The least time between two hand-overs of a lock, in microseconds. Each costs a switch of context while the lock is held;
/// so often it costs 1 to 2 %. parking_lot does so every 0 to 1 ms.
#[cfg(not(loom))]
const BETWEEN_HANDOVERS_US: u32 = 500;

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

/// Whether models hand over always or never: each has its own models.
#[cfg(loom)]
pub(crate) static MODELS_HAND_OVER: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

#[cfg(loom)]
pub(crate) fn may_hand_over(_address: usize) -> bool {
    MODELS_HAND_OVER.load(std::sync::atomic::Ordering::Relaxed)
}
