//! parking_lot's mutex: looks and yields, then a queue in user space (parking_lot 0.12.5 raw_mutex.rs, parking_lot_core 0.9.12
//! parking_lot.rs, spinwait.rs, word_lock.rs).
//!
//! Where no task is parked a waiter pauses for 2, 4 and 8 turns and yields seven times, with a look after each. Then it marks the
//! word and parks: it puts itself into the queue of a bucket, which another lock protects, and sleeps on its own word. A
//! release that finds the mark takes the first of the queue and wakes it. Once in 0 to 1 ms, at random, it leaves the lock to
//! that one; otherwise any task may have it first, and who finds it taken again goes to the end of the queue.

use super::lwlock::{LIST_NS, sleeps};
use crate::locking::looking::{self, GRANTED, LOCKED, MARKED, Next, Rules};
use crate::locking::{Algorithm, NONE};
use crate::world::World;

/// `FairTimeout`: hand-overs are at most this far apart, ns.
const LONGEST_INTERVAL_NS: u64 = 1_000_000;
/// Reading the clock in user space, ns: assumed.
pub(super) const CLOCK_NS: u64 = 20;

// What the task does next when the step before is over. On its way to sleep, in the bucket's lock:
const PARKS: u8 = 16;
const PARKED: u8 = 17;
const REFUSED: u8 = 18;
// Outside of it:
const SLEEPS: u8 = 19;
const SLEEPS_IN_KERNEL: u8 = 26;
const AWAKE: u8 = 20;
// In a release, in the bucket's lock and outside:
const UNPARKS: u8 = 21;
const UNPARKED: u8 = 22;
const ENTERS_WAKE: u8 = 23;
const WAKES: u8 = 24;
const WOKE: u8 = 25;

const RULES: Rules = Rules { sees, writes, sleeps: |world, cpu, task, lock| world.want_inner(cpu, task, lock, PARKS) };

pub(super) const ALGORITHM: Algorithm =
    Algorithm { id: "parking-lot", inner: Some(&BUCKET), looking: Some(&RULES), released, over, ..looking::BASE };

/// `WordLock`: the same looks. Its own queue is here that of the kernel.
const BUCKET_RULES: Rules = Rules { sees, writes: writes_and_marks_if_woken, sleeps: looking::enters };

const BUCKET: Algorithm =
    Algorithm { id: "parking-lot", has_own_line: true, looking: Some(&BUCKET_RULES), ..looking::BASE };

/// `lock_slow()` with `SpinWait::spin()`.
fn sees(world: &mut World, task: u32, _lock: u32, word: u16) -> Next {
    let looks = world.tasks[task as usize].waiting.looks;
    match word {
        0 | MARKED => Next::Write,
        LOCKED if looks < 3 => Next::Pause(2 << looks),
        LOCKED if looks < 10 => Next::Yield,
        LOCKED => Next::Write,
        _ => Next::Sleep,
    }
}

fn writes(world: &mut World, cpu: u32, task: u32, lock: u32) -> Next {
    let (read, found) = (world.tasks[task as usize].waiting.word, looking::word(world, lock));
    debug_assert_eq!(found & GRANTED, 0);
    if found != read {
        return looking::sees(world, task, lock, found);
    }
    if found & LOCKED == 0 {
        world.take(cpu, task, lock, 0);
        return Next::Has;
    }
    world.lock(lock).is_marked = true;
    world.tasks[task as usize].waiting.word = LOCKED | MARKED;
    Next::Sleep
}

/// The release takes the mark away, and there may be more that sleep.
fn writes_and_marks_if_woken(world: &mut World, cpu: u32, task: u32, lock: u32) -> Next {
    let next = writes(world, cpu, task, lock);
    if next == Next::Has && world.tasks[task as usize].waiting.was_woken {
        world.lock(lock).is_marked = true;
    }
    next
}

fn released(world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
    if !world.locks[lock as usize].is_marked {
        looking::frees(world, cpu, task, lock);
        return true;
    }
    // The compare-exchange that would free it fails.
    looking::holders_atomic_ns(world, cpu, task, lock);
    world.want_inner(cpu, task, lock, UNPARKS);
    false
}

fn over(world: &mut World, cpu: u32, task: u32, lock: u32) {
    let syscall_ns = world.machine.costs.syscall_ns;
    match world.tasks[task as usize].waiting.step {
        PARKS if looking::word(world, lock) == LOCKED | MARKED => {
            world.lock(lock).queue.push_back(task);
            world.tasks[task as usize].waiting.is_posted = false;
            world.user_for_lock(cpu, task, lock, PARKED, LIST_NS);
        }
        // `ParkResult::Invalid`
        PARKS => world.release_inner(cpu, task, lock, REFUSED),
        REFUSED => looking::looks_anew(world, cpu, task, lock),
        PARKED => world.release_inner(cpu, task, lock, SLEEPS),
        SLEEPS if world.tasks[task as usize].waiting.is_posted => awake(world, cpu, task, lock),
        SLEEPS => world.kernel_for_lock(cpu, task, lock, SLEEPS_IN_KERNEL, syscall_ns),
        SLEEPS_IN_KERNEL => sleeps(world, cpu, task, lock, AWAKE),
        AWAKE => awake(world, cpu, task, lock),
        UNPARKS => {
            let ns = unparks(world, cpu, task, lock);
            world.user_for_lock(cpu, task, lock, UNPARKED, ns);
        }
        UNPARKED => world.release_inner(cpu, task, lock, ENTERS_WAKE),
        ENTERS_WAKE if world.tasks[task as usize].waiting.to_wake == NONE => world.returns(cpu, task),
        ENTERS_WAKE => world.kernel_for_lock(cpu, task, lock, WAKES, syscall_ns),
        WAKES => {
            let sleeper = std::mem::replace(&mut world.tasks[task as usize].waiting.to_wake, NONE);
            let is_asleep = std::mem::take(&mut world.tasks[sleeper as usize].waiting.on_semaphore);
            let ns = if is_asleep { world.wakes_sleeper(cpu, sleeper) } else { 0 };
            world.kernel_for_lock(cpu, task, lock, WOKE, ns);
        }
        WOKE => world.returns(cpu, task),
        _ => looking::over(world, cpu, task, lock),
    }
}

/// `unpark_one()`, in the bucket's lock. How long it takes, ns.
fn unparks(world: &mut World, cpu: u32, task: u32, lock: u32) -> u64 {
    let now = world.now;
    let next_fair_at = now + world.random.below(LONGEST_INTERVAL_NS);
    let l = world.lock(lock);
    let next = l.queue.pop_front();
    let has_more = !l.queue.is_empty();
    world.tasks[task as usize].waiting.to_wake = next.unwrap_or(NONE);
    let Some(next) = next else {
        looking::frees(world, cpu, task, lock);
        return LIST_NS;
    };
    let l = world.lock(lock);
    if now > l.fair_at {
        (l.fair_at, l.holder, l.is_marked) = (next_fair_at, next, has_more);
    } else {
        looking::frees(world, cpu, task, lock);
        world.lock(lock).is_marked = has_more;
    }
    world.tasks[next as usize].waiting.is_posted = !world.tasks[next as usize].waiting.on_semaphore;
    LIST_NS + CLOCK_NS
}

/// A woken task has the lock if it was left to it, and tries as a newcomer does otherwise.
fn awake(world: &mut World, cpu: u32, task: u32, lock: u32) {
    if world.locks[lock as usize].holder == task {
        world.take(cpu, task, lock, 0);
        return world.continues(cpu, task);
    }
    looking::looks_anew(world, cpu, task, lock);
}
