//! How long a waiter looks before it sleeps, and what a process remembers of its locks.
//!
//! A look takes the line of the lock from its holder's cache. So looks are few, and each pause is twice as long as the one before:
//! with a look every 30 ns, which finds a lock that is held for a microsecond soonest, a waiter cuts the speed of a holder that comes
//! back immediately to a third.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Looks before a sleep. Pauses of 4 to 256 instructions `pause` lie between: 0.1 to 7 µs here, 14 µs in all, about what a sleep
/// and a wake-up cost.
#[cfg(not(loom))]
pub(crate) const LOOKS: u32 = 7;
#[cfg(loom)]
pub(crate) const LOOKS: u32 = 1;
/// After as many, a thread looks on only where it is one of few: on a machine of many CPUs all waiters together would keep the line of the
/// lock busy.
pub(crate) const LOOKS_OF_MANY: u32 = 2;
/// How many look for long at a lock.
#[cfg(not(loom))]
const FEW: u32 = 4;
/// Looks where no thread sleeps for the lock, so that there is a CPU for each: 70 µs more. A sleep would cost the holder a wake-up.
#[cfg(not(loom))]
const LOOKS_WITHOUT_SLEEPERS: u32 = LOOKS + 20;
/// The longest pause there.
#[cfg(not(loom))]
const LONGEST_PAUSE: u32 = 5;
/// What a look in vain that was so long adds. Above the most, a wait takes one off and does without.
#[cfg(not(loom))]
const FAILURE: u32 = 4;
#[cfg(not(loom))]
const MOST_IN_VAIN: u32 = 16;

/// The pause between look `n` and the next.
#[cfg(not(loom))]
#[inline]
pub(crate) fn pause(look: u32) {
    for _ in 0..4u32 << if look < LOOKS { look } else { LONGEST_PAUSE } {
        core::hint::spin_loop();
    }
}

#[cfg(loom)]
pub(crate) fn pause(_look: u32) {
    loom::thread::yield_now();
}

/// The least time between two hand-overs of a lock, in microseconds. parking_lot has 0 to 1 ms.
#[cfg(not(loom))]
const BETWEEN_HANDOVERS_US: u32 = 500;
/// A lock that was handed over stands still until its new owner has a CPU, and all others that want it fall asleep meanwhile. The
/// next hand-over waits this many times as long.
#[cfg(not(loom))]
const REST_PER_STANDSTILL: u32 = 1024;
#[cfg(not(loom))]
const LONGEST_REST_US: u32 = 2_000_000;
/// What a thread takes that finds a CPU.
#[cfg(not(loom))]
const SHORTEST_STANDSTILL_US: u32 = 31;
#[cfg(not(loom))]
const LONGEST_STANDSTILL_US: u32 = 200_000;

/// What a process remembers of the locks at some addresses, in microseconds. Locks that share a place share the limit, and
/// processes do not: it is about cost alone.
#[cfg(not(loom))]
struct Place {
    looking: AtomicU32,
    sleeping: AtomicU32,
    in_vain: AtomicU32,
    handed_over_us: AtomicU32,
    not_before_us: AtomicU32,
    woke_us: AtomicU32,
}

#[cfg(not(loom))]
static PLACES: [Place; 64] = [const {
    Place {
        looking: AtomicU32::new(0),
        sleeping: AtomicU32::new(0),
        in_vain: AtomicU32::new(0),
        handed_over_us: AtomicU32::new(0),
        not_before_us: AtomicU32::new(0),
        woke_us: AtomicU32::new(0),
    }
}; 64];

#[cfg(not(loom))]
fn place(address: usize) -> &'static Place {
    &PLACES[(address >> 3 ^ address >> 9) % PLACES.len()]
}

/// The calling thread is counted for as long as this is kept.
pub(crate) struct Counted {
    #[cfg(not(loom))]
    counter: &'static AtomicU32,
}

#[cfg(not(loom))]
impl Drop for Counted {
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Relaxed);
    }
}

/// Whether fewer than a few look at the lock at an address for long; the caller does from now on.
#[cfg(not(loom))]
pub(crate) fn one_of_few(address: usize) -> Option<Counted> {
    let counter = &place(address).looking;
    let before = counter.fetch_add(1, Relaxed);
    let one = Counted { counter };
    (before < FEW).then_some(one)
}

#[cfg(loom)]
pub(crate) fn one_of_few(_address: usize) -> Option<Counted> {
    Some(Counted {})
}

/// The calling thread sleeps for the lock at an address. One that was woken still sleeps until it has a CPU. A fork copies the count without the threads, and a thread that is killed
/// leaves it: the locks at this place are then looked at for less long.
#[cfg(not(loom))]
pub(crate) fn sleeping(address: usize) -> Counted {
    let counter = &place(address).sleeping;
    counter.fetch_add(1, Relaxed);
    Counted { counter }
}

#[cfg(loom)]
pub(crate) fn sleeping(_address: usize) -> Counted {
    Counted {}
}

/// True if look `look`, from [`LOOKS`] on, pays for a waiter at the lock at an address.
#[cfg(not(loom))]
pub(crate) fn looks_longer(address: usize, look: u32) -> bool {
    let place = place(address);
    let in_vain = place.in_vain.load(Relaxed);
    if look == LOOKS && in_vain > MOST_IN_VAIN {
        place.in_vain.store(in_vain - 1, Relaxed);
        return false;
    }
    look < LOOKS_WITHOUT_SLEEPERS && place.sleeping.load(Relaxed) == 0
}

/// A waiter looked longer than [`LOOKS`].
#[cfg(not(loom))]
pub(crate) fn looked_longer(address: usize, found_it_free: bool) {
    let in_vain = &place(address).in_vain;
    let before = in_vain.load(Relaxed);
    if found_it_free && before != 0 {
        in_vain.store(0, Relaxed);
    } else if !found_it_free {
        in_vain.store((before + FAILURE).min(MOST_IN_VAIN + FAILURE), Relaxed);
    }
}

#[cfg(loom)]
pub(crate) fn looks_longer(_address: usize, _look: u32) -> bool {
    false
}

#[cfg(loom)]
pub(crate) fn looked_longer(_address: usize, _found_it_free: bool) {}

/// What a holder does for a thread that was woken and does not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    No,
    WakeAnother,
    HandOver,
}

/// A thread that finds a CPU has arrived by then.
#[cfg(not(loom))]
const LATE_US: u32 = 2_000;

/// Whether the threads that were woken for the lock at an address are late, and what to do. Where others sleep, the release wakes
/// one in any case, so that it is a hand-over or nothing. Counts as done.
#[cfg(not(loom))]
pub(crate) fn lateness(address: usize, has_sleepers: bool) -> Late {
    let (place, now) = (place(address), crate::time::now_us());
    if !has_sleepers && now.wrapping_sub(place.woke_us.load(Relaxed)) < LATE_US {
        return Late::No;
    }
    place.woke_us.store(now, Relaxed);
    match may_hand_over(place, now) {
        true => Late::HandOver,
        false if has_sleepers => Late::No,
        false => Late::WakeAnother,
    }
}

/// True if a lock may be handed over now. Counts as done when it may.
#[cfg(not(loom))]
fn may_hand_over(place: &Place, now: u32) -> bool {
    let not_before = place.not_before_us.load(Relaxed);
    let next = now.wrapping_add(BETWEEN_HANDOVERS_US);
    // In the future by at most the longest rest: else the 32 bits have wrapped since.
    let is_resting = not_before.wrapping_sub(now).wrapping_sub(1) < LONGEST_REST_US;
    let may = !is_resting && place.not_before_us.compare_exchange(not_before, next, Relaxed, Relaxed).is_ok();
    if may {
        place.handed_over_us.store(now, Relaxed);
    }
    may
}

/// The lock at an address has its new owner.
#[cfg(not(loom))]
pub(crate) fn was_handed_over(address: usize) {
    let place = place(address);
    let now = crate::time::now_us();
    let standstill_us = now.wrapping_sub(place.handed_over_us.load(Relaxed));
    // A longer one was of another lock, or of another process.
    if (SHORTEST_STANDSTILL_US..LONGEST_STANDSTILL_US).contains(&standstill_us) {
        let rest_us = (standstill_us * REST_PER_STANDSTILL).min(LONGEST_REST_US);
        place.not_before_us.store(now.wrapping_add(rest_us), Relaxed);
    }
}

#[cfg(loom)]
pub(crate) fn was_handed_over(_address: usize) {}

/// What holders in models always do, and whether it is a hand-over where threads sleep: each has its own models.
#[cfg(loom)]
pub(crate) static MODELS_ARE_LATE: std::sync::Mutex<Late> = std::sync::Mutex::new(Late::No);

#[cfg(loom)]
pub(crate) fn lateness(_address: usize, has_sleepers: bool) -> Late {
    match *MODELS_ARE_LATE.lock().expect("no panics inside") {
        Late::WakeAnother if has_sleepers => Late::No,
        late => late,
    }
}
