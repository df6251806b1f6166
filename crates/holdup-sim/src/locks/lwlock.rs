//! PostgreSQL's LWLock: a state word, and a list of waiters behind its own lock
//! (src/backend/storage/lmgr/lwlock.c, 16 to 18).
//!
//! A waiter puts itself into the list, tries once more and sleeps on its semaphore. The release takes either one exclusive
//! waiter or all shared ones from the list and wakes them; they try again and do not own it. Waiters of
//! LWLockAcquireOrWait, by which backends wait for the one that writes the log, are woken by every release and continue
//! without the lock. All of them hold LW_FLAG_LOCKED meanwhile, on which others spin as on s_lock: a backend that is
//! preempted there stops all that wait and all that release. The list goes through the PGPROCs of its members, so who adds
//! one fetches a line of the one before, and LWLockWakeup() a line of each that it takes out.

use super::postgres_s_lock;
use crate::locking::{Algorithm, FREE, NONE};
use crate::program::Preemption;
use crate::stats::SwitchOut;
use crate::world::{Segment, Then, World};

/// Adding a waiter to the list or removing one, without the lines that move, ns.
pub(super) const LIST_NS: u64 = 10;

// What the task does next when the step before is over. In the list's lock:
const ENLISTS: u8 = 0;
const ENLISTED: u8 = 1;
const LEAVES: u8 = 2;
const LEFT: u8 = 3;
const CHOOSES: u8 = 4;
const CHOSE: u8 = 5;
// Outside of it, on the way to the lock:
const TRIES_AGAIN: u8 = 6;
const SLEEPS: u8 = 7;
const AWAKE: u8 = 8;
/// It has the lock by its second try and is in no list.
const HAS: u8 = 9;
/// It has the lock by its second try, but another task took it from the list and raises its semaphore.
const ABSORBS: u8 = 10;
const ABSORBS_ASLEEP: u8 = 11;
// After it was given back:
const WAKES: u8 = 12;
const RAISES: u8 = 13;

/// The list of those that wait until the lock is free (`LW_WAIT_UNTIL_FREE`).
const UNTIL_FREE: usize = 2;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "lwlock",
    only_simulated: Some("a part of PostgreSQL, where holdup measures it; there is no real one to take alone"),
    inner: Some(&postgres_s_lock::ALGORITHM),
    is_shareable: true,
    tries,
    waits: |world, cpu, task, lock| world.want_inner(cpu, task, lock, ENLISTS),
    released,
    over,
    ..Algorithm::BASE
};

/// `LWLockAttemptLock()`.
fn tries(world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
    let l = &world.locks[lock as usize];
    let is_shared = world.tasks[task as usize].waiting.is_shared;
    let can = l.holder == FREE && (is_shared || l.sharers == 0);
    if can {
        let ns = world.contended_atomic_ns(cpu, task, lock);
        world.take(cpu, task, lock, ns);
    }
    can
}

/// `LWLockRelease()`.
fn released(world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
    world.atomic_release(cpu, task, lock);
    let l = world.lock(lock);
    if l.holder == task {
        l.holder = FREE;
    } else {
        l.sharers -= 1;
    }
    // LW_FLAG_HAS_WAITERS and LW_FLAG_RELEASE_OK, and no task has it now.
    if l.sharers > 0 || !l.may_wake || !l.is_marked {
        return true;
    }
    world.want_inner(cpu, task, lock, CHOOSES);
    false
}

fn over(world: &mut World, cpu: u32, task: u32, lock: u32) {
    let syscall_ns = world.machine.costs.syscall_ns;
    match world.tasks[task as usize].waiting.step {
        ENLISTS => {
            enlists(world, task, lock);
            world.user_for_lock(cpu, task, lock, ENLISTED, LIST_NS);
        }
        ENLISTED => world.release_inner(cpu, task, lock, TRIES_AGAIN),
        TRIES_AGAIN => {
            if tries(world, cpu, task, lock) {
                return world.want_inner(cpu, task, lock, LEAVES);
            }
            if std::mem::take(&mut world.tasks[task as usize].waiting.is_posted) {
                return awake(world, cpu, task, lock);
            }
            world.kernel_for_lock(cpu, task, lock, SLEEPS, syscall_ns);
        }
        SLEEPS => sleeps(world, cpu, task, lock, AWAKE),
        AWAKE => awake(world, cpu, task, lock),
        LEAVES => {
            leaves(world, task, lock);
            world.user_for_lock(cpu, task, lock, LEFT, LIST_NS);
        }
        LEFT => {
            let waiting = &world.tasks[task as usize].waiting;
            let next = if waiting.is_chosen || waiting.is_posted { ABSORBS } else { HAS };
            world.release_inner(cpu, task, lock, next);
        }
        ABSORBS => {
            world.lock(lock).may_wake = true;
            if std::mem::take(&mut world.tasks[task as usize].waiting.is_posted) {
                return world.returns(cpu, task);
            }
            world.kernel_for_lock(cpu, task, lock, ABSORBS_ASLEEP, syscall_ns);
        }
        ABSORBS_ASLEEP => sleeps(world, cpu, task, lock, HAS),
        HAS => world.returns(cpu, task),
        _ => gives_back(world, cpu, task, lock),
    }
}

/// The steps of a release that wakes.
fn gives_back(world: &mut World, cpu: u32, task: u32, lock: u32) {
    match world.tasks[task as usize].waiting.step {
        CHOOSES => {
            let chosen = chooses(world, task, lock);
            world.user_for_lock(cpu, task, lock, CHOSE, LIST_NS * (1 + chosen));
        }
        CHOSE => world.release_inner(cpu, task, lock, WAKES),
        WAKES => {
            let sleeper = world.tasks[task as usize].waiting.to_wake;
            if sleeper == NONE {
                return world.returns(cpu, task);
            }
            // sem_post() enters the kernel only where a task sleeps.
            let is_asleep = world.tasks[sleeper as usize].waiting.on_semaphore;
            let ns = if is_asleep { world.machine.costs.syscall_ns } else { 0 };
            world.kernel_for_lock(cpu, task, lock, RAISES, ns);
        }
        _ => {
            let sleeper = world.tasks[task as usize].waiting.to_wake;
            let other = &mut world.tasks[sleeper as usize].waiting;
            let next = std::mem::replace(&mut other.woken_next, NONE);
            other.is_chosen = false;
            let is_asleep = std::mem::take(&mut other.on_semaphore);
            other.is_posted = !is_asleep;
            world.tasks[task as usize].waiting.to_wake = next;
            let ns = if is_asleep { world.wakes_sleeper(cpu, sleeper) } else { 0 };
            world.kernel_for_lock(cpu, task, lock, WAKES, ns);
        }
    }
}

/// `LWLockQueueSelf()`, in the list's lock.
fn enlists(world: &mut World, task: u32, lock: u32) {
    let waiting = &world.tasks[task as usize].waiting;
    let kind = if waiting.until_free { UNTIL_FREE } else { usize::from(waiting.is_shared) };
    if let Some(&(before, _)) = world.locks[lock as usize].list[kind].back() {
        fetches_member(world, task, before);
    }
    let l = world.lock(lock);
    let number = l.next_number;
    l.next_number = number.wrapping_add(1) % NONE;
    l.list[kind].push_back((task, number));
    l.listed += 1;
    l.is_marked = true;
    world.tasks[task as usize].waiting.number = number;
}

/// A line of another backend's PGPROC is fetched.
fn fetches_member(world: &mut World, task: u32, member: u32) {
    let (from, to) = (world.tasks[member as usize].cpu, world.tasks[task as usize].cpu);
    world.tasks[task as usize].extra_ns += world.transfer_ns(from, to);
}

/// `LWLockDequeueSelf()`, in the list's lock: what stands in the list for the task is no longer valid.
fn leaves(world: &mut World, task: u32, lock: u32) {
    let number = std::mem::replace(&mut world.tasks[task as usize].waiting.number, NONE);
    if number != NONE {
        let l = world.lock(lock);
        l.listed -= 1;
        l.is_marked = l.listed > 0;
    }
}

/// `LWLockWakeup()`, in the list's lock: all that wait until it is free, and the first waiter if it is exclusive, else all
/// shared ones. How many.
fn chooses(world: &mut World, task: u32, lock: u32) -> u64 {
    let (until_free, last) = takes(world, task, lock, (UNTIL_FREE, u64::MAX), NONE);
    let exclusive = first(world, lock, 0);
    let shared = first(world, lock, 1);
    let takes_exclusive = match (exclusive, shared) {
        (Some((_, a)), Some((_, b))) => a < b,
        (a, _) => a.is_some(),
    };
    let most = if takes_exclusive { 1 } else { u64::MAX };
    let (chosen, _) = takes(world, task, lock, (usize::from(!takes_exclusive), most), last);
    let l = world.lock(lock);
    l.is_marked = l.listed > 0;
    // LW_FLAG_RELEASE_OK stays where no woken task wants to have it.
    l.may_wake = chosen == 0;
    until_free + chosen
}

/// Takes at most `most` of a kind from the list, and appends them to those that the task will wake. How many, and which is
/// the last one now.
fn takes(world: &mut World, task: u32, lock: u32, (kind, most): (usize, u64), mut last: u32) -> (u64, u32) {
    let mut chosen = 0;
    while let Some((waiter, _)) = first(world, lock, kind).filter(|_| chosen < most) {
        fetches_member(world, task, waiter);
        let l = world.lock(lock);
        l.list[kind].pop_front();
        l.listed -= 1;
        let waiting = &mut world.tasks[waiter as usize].waiting;
        (waiting.number, waiting.woken_next, waiting.is_chosen) = (NONE, NONE, true);
        if last == NONE {
            world.tasks[task as usize].waiting.to_wake = waiter;
        } else {
            world.tasks[last as usize].waiting.woken_next = waiter;
        }
        (chosen, last) = (chosen + 1, waiter);
    }
    (chosen, last)
}

/// The first of a kind in the list. Those that left it are dropped on the way.
fn first(world: &mut World, lock: u32, kind: usize) -> Option<(u32, u32)> {
    loop {
        let entry = *world.locks[lock as usize].list[kind].front()?;
        if world.tasks[entry.0 as usize].waiting.number == entry.1 {
            return Some(entry);
        }
        world.lock(lock).list[kind].pop_front();
    }
}

/// The task is in the kernel for its semaphore, and sleeps unless that was raised meanwhile.
pub(super) fn sleeps(world: &mut World, cpu: u32, task: u32, lock: u32, next: u8) {
    let ns = world.machine.costs.syscall_ns / 2;
    let waiting = &mut world.tasks[task as usize].waiting;
    if std::mem::take(&mut waiting.is_posted) {
        return world.kernel_for_lock(cpu, task, lock, next, ns);
    }
    (waiting.step, waiting.slept, waiting.on_semaphore) = (next, true, true);
    world.tasks[task as usize].segment = Segment::kernel(ns, Preemption::On, Then::Lock);
    world.seen.locks[lock as usize].sleeps += 1;
    world.schedule(cpu, SwitchOut::Blocked);
}

/// A woken task lets releases wake again and tries as a newcomer does; one that waited until the lock is free continues.
fn awake(world: &mut World, cpu: u32, task: u32, lock: u32) {
    let waiting = &mut world.tasks[task as usize].waiting;
    if waiting.until_free {
        waiting.wanted = NONE;
        return world.returns(cpu, task);
    }
    world.lock(lock).may_wake = true;
    if tries(world, cpu, task, lock) {
        return world.has_it_in_kernel(cpu, task);
    }
    world.want_inner(cpu, task, lock, ENLISTS);
}
