//! holdfast's mutex: looks whose pauses double, then a sleep on the word, and hand-overs (crates/holdfast/src/mutex/raw.rs,
//! spin.rs).
//!
//! One atomic OR takes a free lock. A waiter looks with pauses of 4 to 256 turns in between, marks the word and sleeps. A release
//! clears the mark and wakes one sleeper, which sets it again; any newcomer may take the lock before it. Once in 500 us the
//! holder of a marked lock hands it over: it wakes one while it holds the lock, and leaves it reserved for a woken waiter. A
//! lock that then stood still rests for sixteen times as long before the next hand-over.

use super::parking_lot::CLOCK_NS;
use crate::locking::looking::{self, GRANTED, LOCKED, MARKED, Next, Rules};
use crate::locking::{Algorithm, FREE, HandOvers, NONE};
use crate::world::World;

/// Pauses before a sleep (`LOOKS`), and the turns of the first one, of which each next one has twice as many (`pause()`).
pub(crate) const LOOKS: u32 = 7;
pub(crate) const FIRST_PAUSE: u32 = 4;
/// `BETWEEN_HANDOVERS_US`, `REST_PER_STANDSTILL`, `LONGEST_STANDSTILL_US`.
const BETWEEN_HANDOVERS_US: u64 = 500;
const REST_PER_STANDSTILL: u64 = 16;
const LONGEST_STANDSTILL_US: u64 = 200_000;

/// The holder is in FUTEX_WAKE, and the lock is not free.
const HANDS_OVER: u8 = 16;
/// It has woken a sleeper.
const WOKE: u8 = 17;
/// Its compare-exchange that reserves the lock is carried out.
const GRANTS: u8 = 18;

pub(super) const RULES: Rules = Rules { sees, writes, sleeps: looking::enters, asks: false };

pub(super) const ALGORITHM: Algorithm =
    Algorithm { id: "holdfast", looking: Some(&RULES), released, over, ..looking::BASE };

/// `RawMutex::look()`, and what `wait()` does with the word.
fn sees(world: &mut World, task: u32, _lock: u32, word: u8) -> Next {
    let waiting = &world.tasks[task as usize].waiting;
    match word {
        _ if may_take(word, waiting.was_woken) => Next::Write,
        _ if waiting.looks < LOOKS && word & GRANTED == 0 => Next::Pause(FIRST_PAUSE << waiting.looks),
        _ if word & MARKED != 0 => Next::Sleep,
        _ => Next::Write,
    }
}

/// `Waiter::take()`.
fn may_take(word: u8, was_woken: bool) -> bool {
    word & LOCKED == 0 || was_woken && word & GRANTED != 0
}

fn writes(world: &mut World, cpu: u32, task: u32, lock: u32) -> Next {
    let found = looking::word(world, lock);
    let waiting = &mut world.tasks[task as usize].waiting;
    if found != waiting.word {
        waiting.looks = 0;
        return looking::sees(world, task, lock, found);
    }
    acts(world, cpu, task, lock)
}

/// The compare-exchange found the word as it was read.
pub(super) fn acts(world: &mut World, cpu: u32, task: u32, lock: u32) -> Next {
    let waiting = &mut world.tasks[task as usize].waiting;
    let found = waiting.word;
    let was_woken = waiting.was_woken;
    if may_take(found, was_woken) {
        let l = world.lock(lock);
        l.is_granted = false;
        l.is_marked |= was_woken;
        if found & GRANTED != 0 {
            was_handed_over(world, task, lock);
        }
        looking::takes(world, cpu, task, lock, 0);
        return Next::Has;
    }
    waiting.word |= MARKED;
    world.lock(lock).is_marked = true;
    Next::Sleep
}

/// `unlock()`: a look, and an exchange if no task sleeps.
pub(super) fn released(world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
    world.tasks[task as usize].extra_ns += world.read_ns(cpu, task, lock);
    gives_back(world, cpu, task, lock)
}

/// The holder knows the word.
pub(super) fn gives_back(world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
    if !world.locks[lock as usize].is_marked {
        looking::frees(world, cpu, task, lock);
        return true;
    }
    world.tasks[task as usize].extra_ns += CLOCK_NS;
    if may_hand_over(world, task, lock) {
        // The exchange leaves the lock held and without a mark.
        looking::holders_atomic_ns(world, cpu, task, lock);
        world.lock(lock).is_marked = false;
        world.kernel_for_lock(cpu, task, lock, HANDS_OVER, world.machine.costs.syscall_ns);
        return false;
    }
    looking::frees(world, cpu, task, lock);
    looking::wakes(world, cpu, task, lock);
    false
}

pub(super) fn over(world: &mut World, cpu: u32, task: u32, lock: u32) {
    match world.tasks[task as usize].waiting.step {
        HANDS_OVER => match world.lock(lock).queue.pop_front() {
            Some(sleeper) => {
                let ns = world.wakes_sleeper(cpu, sleeper);
                world.kernel_for_lock(cpu, task, lock, WOKE, ns);
            }
            // FUTEX_WAKE found no sleeper.
            None => frees_after_all(world, cpu, task, lock),
        },
        WOKE => {
            let ns = world.contended_atomic_ns(cpu, task, lock);
            world.user_for_lock(cpu, task, lock, GRANTS, ns);
        }
        GRANTS if !world.locks[lock as usize].is_marked => {
            let l = world.lock(lock);
            (l.holder, l.is_granted) = (FREE, true);
            is_given_back(world, cpu, task, lock);
        }
        // Another one went to sleep meanwhile: the woken waiter may as well, so the lock is for all.
        GRANTS => frees_after_all(world, cpu, task, lock),
        _ => looking::over(world, cpu, task, lock),
    }
}

/// The hand-over did not come about.
fn frees_after_all(world: &mut World, cpu: u32, task: u32, lock: u32) {
    if looking::frees(world, cpu, task, lock) {
        return looking::wakes(world, cpu, task, lock);
    }
    is_given_back(world, cpu, task, lock);
}

/// The last step of a release that took several.
fn is_given_back(world: &mut World, cpu: u32, task: u32, lock: u32) {
    world.tasks[task as usize].waiting.lock = NONE;
    let asks = world.locks[lock as usize].algorithm.looking.is_some_and(|rules| rules.asks);
    if !asks || world.gives_slice_back(cpu, task) {
        world.continues(cpu, task);
    }
}

/// `spin::may_hand_over()`.
fn may_hand_over(world: &mut World, task: u32, lock: u32) -> bool {
    let now_us = world.now / 1_000;
    let place = place(world, task, lock);
    let may = now_us >= place.not_before_us;
    if may {
        (place.at_us, place.not_before_us) = (now_us, now_us + BETWEEN_HANDOVERS_US);
    }
    may
}

/// `spin::was_handed_over()`.
fn was_handed_over(world: &mut World, task: u32, lock: u32) {
    let now_us = world.now / 1_000;
    let place = place(world, task, lock);
    let standstill_us = now_us.saturating_sub(place.at_us);
    if (BETWEEN_HANDOVERS_US / REST_PER_STANDSTILL..LONGEST_STANDSTILL_US).contains(&standstill_us) {
        place.not_before_us = now_us + standstill_us * REST_PER_STANDSTILL;
    }
}

/// What the task's process remembers of the lock.
fn place(world: &mut World, task: u32, lock: u32) -> &mut HandOvers {
    let process = world.tasks[task as usize].process as usize;
    let all = &mut world.lock(lock).hand_overs;
    if all.len() <= process {
        all.resize(process + 1, HandOvers::default());
    }
    &mut all[process]
}
