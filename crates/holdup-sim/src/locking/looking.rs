//! Locks whose waiters look at the word for a while and then sleep on it (kernel/futex/waitwake.c, v6.18).
//!
//! A newcomer begins with an atomic operation. Between two looks a waiter pauses or yields, so each look is an event of its
//! own: it brings the line here if it was written since the look before, and the holder gets it back from the last one that
//! looked. A waiter that acts on what it saw does so by a second operation, before which the word may change.

use super::{Algorithm, FREE};
use crate::program::Preemption;
use crate::stats::SwitchOut;
use crate::world::{Segment, Then, World};

/// The lock is held, or reserved.
pub(crate) const LOCKED: u16 = 1;
/// A waiter may sleep.
pub(crate) const MARKED: u16 = 2;
/// With `LOCKED`: it is reserved for a woken waiter.
pub(crate) const GRANTED: u16 = 4;

/// What a waiter does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Looks again after this many turns of the pause instruction.
    Pause(u32),
    /// Looks again after sched_yield().
    Yield,
    /// Changes the word by an atomic operation.
    Write,
    /// Sleeps if the word is still what it read.
    Sleep,
    /// Continues its program: it has the lock.
    Has,
}

/// What distinguishes them.
#[derive(Debug)]
pub(crate) struct Rules {
    /// What a waiter does about a word that it read: the world, its number, the lock's, the word.
    pub(crate) sees: fn(&mut World, u32, u32, u16) -> Next,
    /// Its atomic operation is carried out: the world, the numbers of the CPU, of the waiter and of the lock.
    pub(crate) writes: fn(&mut World, u32, u32, u32) -> Next,
    /// It goes to sleep.
    pub(crate) sleeps: fn(&mut World, u32, u32, u32),
}

// What is over when the algorithm is asked. Steps from 16 on are an algorithm's own.
const ARRIVES: u8 = 0;
const PAUSES: u8 = 1;
const READS: u8 = 2;
const WRITES: u8 = 3;
const YIELDS: u8 = 4;
const ENTERS: u8 = 5;
/// It is back from FUTEX_WAIT.
pub(crate) const RETURNS: u8 = 6;
/// The release has freed the lock, and is in FUTEX_WAKE.
const WAKES: u8 = 7;
const WOKE: u8 = 8;

/// A lock whose waiters look; `id` and `looking` are missing.
pub(crate) const BASE: Algorithm = Algorithm {
    tries,
    waits,
    released,
    over,
    // The end of a pause does not depend on what others do.
    switched_out: |_, _, _| {},
    switched_in: |_, _, _| {},
    ..Algorithm::BASE
};

/// The word as an atomic operation finds it.
pub(crate) fn word(world: &World, lock: u32) -> u16 {
    let l = &world.locks[lock as usize];
    let locked = if l.holder == FREE && !l.is_granted { 0 } else { LOCKED };
    let marked = if l.is_marked { MARKED } else { 0 };
    locked | marked | l.hints | if l.is_granted { GRANTED } else { 0 }
}

/// True if an atomic operation of a newcomer takes the lock, regardless of hints in its word.
fn is_free(world: &World, lock: u32) -> bool {
    word(world, lock) & (LOCKED | MARKED | GRANTED) == 0
}

/// The word as a load finds it: a release that is on its way is not seen yet.
fn seen_word(world: &World, lock: u32) -> u16 {
    let is_hidden = world.locks[lock as usize].visible_at > world.now;
    word(world, lock) | if is_hidden { LOCKED } else { 0 }
}

fn rules(world: &World, lock: u32) -> &'static Rules {
    world.locks[lock as usize].algorithm.looking.expect("only locks with rules are in the list with this base")
}

/// One atomic operation on a lock that looks free.
fn tries(world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
    let is_free = is_free(world, lock);
    if is_free {
        let ns = world.contended_atomic_ns(cpu, task, lock);
        world.take(cpu, task, lock, ns);
    }
    is_free
}

/// The newcomer's operation fails, and has taken the line from the holder.
fn waits(world: &mut World, cpu: u32, task: u32, lock: u32) {
    let waiting = &mut world.tasks[task as usize].waiting;
    (waiting.looks, waiting.turns) = (0, 0);
    (waiting.was_woken, waiting.gave_up, waiting.must_mark) = (false, false, false);
    let ns = world.contended_atomic_ns(cpu, task, lock);
    world.spin_for_lock(cpu, task, lock, ARRIVES, ns);
}

pub(crate) fn over(world: &mut World, cpu: u32, task: u32, lock: u32) {
    match world.tasks[task as usize].waiting.step {
        // The holder may have left while the operation was on its way.
        ARRIVES if is_free(world, lock) => {
            world.take(cpu, task, lock, 0);
            world.has_it(cpu, task);
        }
        PAUSES => looks(world, cpu, task, lock),
        ARRIVES | READS => {
            let word = seen_word(world, lock);
            let next = sees(world, task, lock, word);
            goes_on(world, cpu, task, lock, next);
        }
        WRITES => {
            let next = (rules(world, lock).writes)(world, cpu, task, lock);
            goes_on(world, cpu, task, lock, next);
        }
        YIELDS => world.yields_for_lock(cpu, task, PAUSES),
        ENTERS => {
            // Half-way through the call the word is read again under the bucket's lock (`futex_wait_setup()`).
            if world.tasks[task as usize].waiting.word == word(world, lock) {
                return falls_asleep(world, cpu, task, lock, RETURNS);
            }
            world.tasks[task as usize].waiting.was_woken = false;
            world.kernel_for_lock(cpu, task, lock, RETURNS, world.machine.costs.syscall_ns / 2);
        }
        RETURNS => looks_anew(world, cpu, task, lock),
        WAKES => match world.lock(lock).queue.pop_front() {
            Some(sleeper) => {
                // The waker's work continues after the sleeper is runnable.
                let ns = world.wakes_sleeper(cpu, sleeper);
                world.kernel_for_lock(cpu, task, lock, WOKE, ns);
            }
            None => world.returns(cpu, task),
        },
        _ => world.returns(cpu, task),
    }
}

/// A waiter reads the word, and remembers it.
fn looks(world: &mut World, cpu: u32, task: u32, lock: u32) {
    let ns = world.read_ns(cpu, task, lock);
    world.spin_for_lock(cpu, task, lock, READS, ns);
}

/// A waiter that slept, or found no reason to, begins to look again.
pub(crate) fn looks_anew(world: &mut World, cpu: u32, task: u32, lock: u32) {
    world.tasks[task as usize].waiting.looks = 0;
    looks(world, cpu, task, lock);
}

/// What a waiter does about a word, which it remembers.
pub(crate) fn sees(world: &mut World, task: u32, lock: u32, word: u16) -> Next {
    world.tasks[task as usize].waiting.word = word;
    (rules(world, lock).sees)(world, task, lock, word)
}

fn goes_on(world: &mut World, cpu: u32, task: u32, lock: u32, next: Next) {
    match next {
        Next::Pause(turns) => {
            let ns = u64::from(turns) * world.machine.costs.spin_ns;
            world.tasks[task as usize].waiting.looks += 1;
            world.spin_for_lock(cpu, task, lock, PAUSES, ns);
        }
        Next::Yield => {
            world.tasks[task as usize].waiting.looks += 1;
            world.kernel_for_lock(cpu, task, lock, YIELDS, world.machine.costs.syscall_ns);
        }
        Next::Write => {
            let ns = world.contended_atomic_ns(cpu, task, lock);
            world.spin_for_lock(cpu, task, lock, WRITES, ns);
        }
        Next::Sleep => (rules(world, lock).sleeps)(world, cpu, task, lock),
        Next::Has => world.has_it(cpu, task),
    }
}

/// FUTEX_WAIT on the word.
pub(crate) fn enters(world: &mut World, cpu: u32, task: u32, lock: u32) {
    world.kernel_for_lock(cpu, task, lock, ENTERS, world.machine.costs.syscall_ns / 2);
}

/// A waiter in FUTEX_WAIT sleeps; `next` is its step when it is woken.
pub(crate) fn falls_asleep(world: &mut World, cpu: u32, task: u32, lock: u32, next: u8) {
    world.lock(lock).queue.push_back(task);
    world.seen.locks[lock as usize].sleeps += 1;
    let ns = world.machine.costs.syscall_ns / 2;
    let t = &mut world.tasks[task as usize];
    (t.waiting.step, t.waiting.slept, t.waiting.was_woken) = (next, true, true);
    t.segment = Segment::kernel(ns, Preemption::On, Then::Lock);
    world.schedule(cpu, SwitchOut::Blocked);
}

/// An exchange sets the lock free, and the mark of sleepers goes with it. Whether it was there.
pub(crate) fn frees(world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
    let ns = holders_atomic_ns(world, cpu, task, lock);
    let at = world.now + ns;
    let l = world.lock(lock);
    (l.holder, l.visible_at) = (FREE, at);
    std::mem::take(&mut l.is_marked)
}

/// The holder's atomic operation at the end of its section, which waits until what it wrote there is through.
pub(crate) fn holders_atomic_ns(world: &mut World, cpu: u32, task: u32, lock: u32) -> u64 {
    let writes_ns = std::mem::take(&mut world.lock(lock).data_ns);
    let ns = writes_ns + world.contended_atomic_ns(cpu, task, lock);
    world.tasks[task as usize].extra_ns += ns;
    ns
}

/// FUTEX_WAKE of one sleeper, with the lock free.
pub(crate) fn wakes(world: &mut World, cpu: u32, task: u32, lock: u32) {
    world.kernel_for_lock(cpu, task, lock, WAKES, world.machine.costs.syscall_ns);
}

/// The release of a marked lock wakes one that sleeps.
fn released(world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
    let is_marked = frees(world, cpu, task, lock);
    if is_marked {
        wakes(world, cpu, task, lock);
    }
    !is_marked
}

/// True if the step under way is the end of a release that wakes.
pub(crate) fn is_waking(step: u8) -> bool {
    step == WAKES
}
