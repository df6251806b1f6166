//! holdfast's mutex: looks whose pauses double, then a sleep on the word, and hand-overs (crates/holdfast/src/mutex/raw.rs,
//! spin.rs).
//!
//! One atomic OR takes a free lock. A waiter looks with pauses of 4 to 256 turns in between, from the third look on only
//! where it is one of four and for longer where no other sleeps, marks the word and sleeps. A release clears the mark and
//! wakes one sleeper, which sets it again; any newcomer may take the lock before it. Once in 500 us the holder of a marked
//! lock hands it over: it wakes one while it holds the lock, and leaves it reserved for a woken waiter. A lock that then
//! stood still rests for 1,024 times as long before the next hand-over. While a woken waiter has not arrived, the word
//! counts releases; at the 64th the holder does something about it if 2 ms are over.

use super::parking_lot::CLOCK_NS;
use crate::locking::looking::{self, GRANTED, LOCKED, MARKED, Next, Rules};
use crate::locking::{Algorithm, FREE, NONE, Place};
use crate::world::World;

/// Pauses before a sleep (`LOOKS`), and the turns of the first one, of which each next one has twice as many (`pause()`).
pub(crate) const LOOKS: u32 = 7;
pub(crate) const FIRST_PAUSE: u32 = 4;
/// `LOOKS_OF_MANY`, `FEW`.
pub(crate) const LOOKS_OF_MANY: u32 = 2;
pub(crate) const FEW: u32 = 4;
/// `LOOKS_WITHOUT_SLEEPERS`, `LONGEST_PAUSE`, `FAILURE`, `MOST_IN_VAIN`.
const LOOKS_WITHOUT_SLEEPERS: u32 = LOOKS + 20;
const LONGEST_PAUSE: u32 = 5;
const FAILURE: u32 = 4;
const MOST_IN_VAIN: u32 = 16;
/// `BETWEEN_HANDOVERS_US`, `REST_PER_STANDSTILL`, the bounds of a rest and of a standstill, `LATE_US`.
const BETWEEN_HANDOVERS_US: u64 = 500;
const REST_PER_STANDSTILL: u64 = 1024;
const LONGEST_REST_US: u64 = 2_000_000;
const SHORTEST_STANDSTILL_US: u64 = 31;
const LONGEST_STANDSTILL_US: u64 = 200_000;
const LATE_US: u64 = 2_000;

/// A thread was woken for the lock and has not arrived yet. With it the word counts releases, and the last bit says that they are many.
const WOKEN: u16 = 1 << 3;
const ONE_RELEASE: u16 = 1 << 4;
const LATE: u16 = 1 << 10;

// What a release does that is not only an exchange. Nothing:
const NOTHING: u8 = 0;
// The holder is in FUTEX_WAKE, and the lock is not free.
const HANDS_OVER: u8 = 16;
const WAKES_ANOTHER: u8 = 17;
// It has woken a sleeper.
const WOKE_OWNER: u8 = 18;
const WOKE_ANOTHER: u8 = 19;
// Its compare-exchange that reserves the lock is carried out.
const GRANTS: u8 = 20;

pub(super) const RULES: Rules = Rules { sees, writes, sleeps };

pub(super) const ALGORITHM: Algorithm =
    Algorithm { id: "holdfast", looking: Some(&RULES), released, over, ..looking::BASE };

/// `RawMutex::look()`, and what `wait()` does with the word.
fn sees(world: &mut World, task: u32, lock: u32, word: u16) -> Next {
    let waiting = &world.tasks[task as usize].waiting;
    let (looks, was_woken) = (waiting.looks, waiting.was_woken);
    let waits_on = !may_take(word, was_woken) && word & GRANTED == 0;
    let looks_on = waits_on && (looks < LOOKS || looks_longer(world, task, lock, looks));
    if looks_on && (looks < LOOKS_OF_MANY || is_one_of_few(world, task, lock)) {
        return Next::Pause(FIRST_PAUSE << if looks < LOOKS { looks } else { LONGEST_PAUSE });
    }
    if looks > LOOKS {
        let place = place(world, task, lock);
        place.in_vain = if waits_on { (place.in_vain + FAILURE).min(MOST_IN_VAIN + FAILURE) } else { 0 };
    }
    if std::mem::take(&mut world.tasks[task as usize].waiting.is_counted) {
        place(world, task, lock).looking -= 1;
    }
    if !may_take(word, was_woken) && asleep(word, was_woken) == word { Next::Sleep } else { Next::Write }
}

/// `spin::looks_longer()`.
fn looks_longer(world: &mut World, task: u32, lock: u32, looks: u32) -> bool {
    let place = place(world, task, lock);
    if looks == LOOKS && place.in_vain > MOST_IN_VAIN {
        place.in_vain -= 1;
        return false;
    }
    looks < LOOKS_WITHOUT_SLEEPERS && place.sleeping == 0
}

/// `spin::sleeping()`, and FUTEX_WAIT.
fn sleeps(world: &mut World, cpu: u32, task: u32, lock: u32) {
    place(world, task, lock).sleeping += 1;
    looking::enters(world, cpu, task, lock);
}

/// `spin::one_of_few()`
fn is_one_of_few(world: &mut World, task: u32, lock: u32) -> bool {
    if !world.tasks[task as usize].waiting.is_counted {
        let place = place(world, task, lock);
        let is_one = place.looking < FEW;
        place.looking += u32::from(is_one);
        world.tasks[task as usize].waiting.is_counted = is_one;
    }
    world.tasks[task as usize].waiting.is_counted
}

/// `Waiter::take()`.
fn may_take(word: u16, was_woken: bool) -> bool {
    word & LOCKED == 0 || was_woken && word & GRANTED != 0
}

/// The word on which a waiter sleeps: one that was woken has arrived.
fn asleep(word: u16, was_woken: bool) -> u16 {
    MARKED | if was_woken { word & (WOKEN - 1) } else { word }
}

/// A compare-exchange.
fn writes(world: &mut World, cpu: u32, task: u32, lock: u32) -> Next {
    let found = looking::word(world, lock);
    let waiting = &mut world.tasks[task as usize].waiting;
    if found != waiting.word {
        return looking::sees(world, task, lock, found);
    }
    let (was_woken, takes) = (waiting.was_woken, may_take(found, waiting.was_woken));
    waiting.word = asleep(found, was_woken);
    let l = world.lock(lock);
    l.is_marked |= was_woken || !takes;
    if was_woken {
        l.hints = 0;
    }
    if !takes {
        return Next::Sleep;
    }
    l.is_granted = false;
    if found & GRANTED != 0 {
        was_handed_over(world, task, lock);
    }
    world.take(cpu, task, lock, 0);
    Next::Has
}

/// `unlock()`: a look, and an exchange if no other task is to be thought of.
pub(super) fn released(world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
    world.tasks[task as usize].extra_ns += world.read_ns(cpu, task, lock);
    gives_back(world, cpu, task, lock)
}

/// The holder knows the word.
pub(super) fn gives_back(world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
    let l = world.lock(lock);
    if !l.is_marked && l.hints & LATE == 0 {
        l.hints += if l.hints == 0 { 0 } else { ONE_RELEASE };
        looking::frees(world, cpu, task, lock);
        return true;
    }
    let (is_marked, syscall_ns) = (l.is_marked, world.machine.costs.syscall_ns);
    match lateness(world, task, lock, is_marked) {
        NOTHING => {
            world.lock(lock).hints = WOKEN;
            if looking::frees(world, cpu, task, lock) {
                looking::wakes(world, cpu, task, lock);
            }
            return !is_marked;
        }
        HANDS_OVER => {
            // The exchange leaves the lock held and without a mark.
            looking::holders_atomic_ns(world, cpu, task, lock);
            let l = world.lock(lock);
            (l.is_marked, l.hints) = (false, WOKEN);
            world.kernel_for_lock(cpu, task, lock, HANDS_OVER, syscall_ns);
        }
        step => world.kernel_for_lock(cpu, task, lock, step, syscall_ns),
    }
    false
}

pub(super) fn over(world: &mut World, cpu: u32, task: u32, lock: u32) {
    match world.tasks[task as usize].waiting.step {
        step @ (HANDS_OVER | WAKES_ANOTHER) => match world.lock(lock).queue.pop_front() {
            Some(sleeper) => {
                let ns = world.wakes_sleeper(cpu, sleeper);
                let next = if step == HANDS_OVER { WOKE_OWNER } else { WOKE_ANOTHER };
                world.kernel_for_lock(cpu, task, lock, next, ns);
            }
            None => frees_after_all(world, cpu, task, lock, if step == HANDS_OVER { WOKEN } else { 0 }),
        },
        WOKE_OWNER => {
            let ns = world.contended_atomic_ns(cpu, task, lock);
            world.user_for_lock(cpu, task, lock, GRANTS, ns);
        }
        GRANTS if !world.locks[lock as usize].is_marked => {
            let l = world.lock(lock);
            (l.holder, l.is_granted) = (FREE, true);
            is_given_back(world, cpu, task, lock);
        }
        looking::RETURNS => {
            place(world, task, lock).sleeping -= 1;
            looking::over(world, cpu, task, lock);
        }
        // With `GRANTS`: another one went to sleep meanwhile. The woken waiter may as well, so the lock is for all.
        WOKE_ANOTHER | GRANTS => frees_after_all(world, cpu, task, lock, WOKEN),
        _ => looking::over(world, cpu, task, lock),
    }
}

/// The holder woke a waiter, and the lock is for all.
fn frees_after_all(world: &mut World, cpu: u32, task: u32, lock: u32, hints: u16) {
    world.lock(lock).hints = hints;
    if looking::frees(world, cpu, task, lock) {
        return looking::wakes(world, cpu, task, lock);
    }
    is_given_back(world, cpu, task, lock);
}

/// The last step of a release that took several.
fn is_given_back(world: &mut World, cpu: u32, task: u32, lock: u32) {
    world.tasks[task as usize].waiting.lock = NONE;
    let asks = world.locks[lock as usize].algorithm.asks;
    if !asks || world.gives_slice_back(cpu, task) {
        world.continues(cpu, task);
    }
}

/// `spin::lateness()`, as the step of the release that follows; `NOTHING` where the lock is only freed.
fn lateness(world: &mut World, task: u32, lock: u32, has_sleepers: bool) -> u8 {
    let now_us = world.now / 1_000;
    world.tasks[task as usize].extra_ns += CLOCK_NS;
    let place = place(world, task, lock);
    if !has_sleepers && now_us - place.woke_us < LATE_US {
        return NOTHING;
    }
    place.woke_us = now_us;
    if now_us >= place.not_before_us {
        (place.handed_over_us, place.not_before_us) = (now_us, now_us + BETWEEN_HANDOVERS_US);
        return HANDS_OVER;
    }
    if has_sleepers { NOTHING } else { WAKES_ANOTHER }
}

/// `spin::was_handed_over()`.
fn was_handed_over(world: &mut World, task: u32, lock: u32) {
    let now_us = world.now / 1_000;
    world.tasks[task as usize].extra_ns += CLOCK_NS;
    let place = place(world, task, lock);
    let standstill_us = now_us.saturating_sub(place.handed_over_us);
    if (SHORTEST_STANDSTILL_US..LONGEST_STANDSTILL_US).contains(&standstill_us) {
        place.not_before_us = now_us + (standstill_us * REST_PER_STANDSTILL).min(LONGEST_REST_US);
    }
}

/// What the task's process remembers of the lock, for an atomic operation there.
fn place(world: &mut World, task: u32, lock: u32) -> &mut Place {
    let of = &world.tasks[task as usize];
    let (process, cpu) = (of.process as usize, of.cpu);
    let all = &mut world.lock(lock).places;
    if all.len() <= process {
        all.resize(process + 1, Place { cpu, ..Place::default() });
    }
    let from = std::mem::replace(&mut all[process].cpu, cpu);
    world.tasks[task as usize].extra_ns += world.machine.costs.atomic_ns + world.transfer_ns(from, cpu);
    &mut world.lock(lock).places[process]
}
