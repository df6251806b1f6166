//! Simulated locks: what an algorithm is ([`Algorithm`]), what the machine knows of a lock ([`Lock`]), and how waiters spin
//! (`spinning`, `queued`) or look for a while and sleep (`looking`). The algorithms are in `crate::locks`.
//!
//! What an algorithm costs is stated in operations on cache lines. A read or write of a line that another CPU wrote last
//! transfers it here, which takes a time that depends on the distance; an atomic operation waits for that, a plain write
//! does not, because it is in the store buffer meanwhile: the writer continues, and the others see it later. A write to a
//! line that others spin on waits for each of them to be served.

pub(crate) mod looking;
pub(crate) mod queued;
pub(crate) mod spinning;

use crate::locks::find;
use crate::world::World;
use std::collections::VecDeque;

/// The holder of a free lock.
pub(crate) const FREE: u32 = u32::MAX;

/// No lock, no task, no place.
pub(crate) const NONE: u32 = u32::MAX;

/// A step of an algorithm: the world, then the numbers of the CPU, of the task that runs there, and of the lock.
type Step<T> = fn(&mut World, u32, u32, u32) -> T;

/// What distinguishes the algorithms.
#[derive(Debug)]
pub(crate) struct Algorithm {
    /// The id of the real lock of holdup that it simulates.
    pub(crate) id: &'static str,
    /// Why there is no real lock with this id; `None` where there is one.
    pub(crate) only_simulated: Option<&'static str>,
    /// The algorithm of the lock inside this one, where there is one: what protects a list of waiters.
    pub(crate) inner: Option<&'static Algorithm>,
    /// Of one inside another lock: whether its word is not on that one's line.
    pub(crate) has_own_line: bool,
    /// True if several can hold it, shared.
    pub(crate) is_shareable: bool,
    /// True if a spinner writes the line at every turn instead of reading it.
    pub(crate) exchanges: bool,
    /// True if a holder asks the kernel for a longer time slice.
    pub(crate) asks: bool,
    /// How its waiters look before they sleep, where they do.
    pub(crate) looking: Option<&'static looking::Rules>,
    /// A running task tries once. Whether it has the lock.
    pub(crate) tries: Step<bool>,
    /// A running task wants the lock, which is not free: it begins to spin or enters the kernel.
    pub(crate) waits: Step<()>,
    /// The running task releases the lock. Whether its program continues; if not, a segment was begun.
    pub(crate) released: Step<bool>,
    /// What a task did for the lock is over: it saw a change, it has spun long enough, or the kernel is done.
    pub(crate) over: Step<()>,
    /// A spinning waiter was taken off its CPU: task and lock.
    pub(crate) switched_out: fn(&mut World, u32, u32),
    /// A waiter that spun when it was taken off has a CPU again: task and lock.
    pub(crate) switched_in: fn(&mut World, u32, u32),
}

impl Algorithm {
    /// What most have in common: any newcomer takes a free lock with one atomic operation and releases it with a plain
    /// write, and the spinners compete.
    pub(crate) const BASE: Algorithm = Algorithm {
        id: "",
        only_simulated: None,
        inner: None,
        has_own_line: false,
        is_shareable: false,
        exchanges: false,
        asks: false,
        looking: None,
        tries: take_if_free,
        waits: |_, _, _, _| {},
        released: |world, cpu, _, lock| {
            spinning::frees(world, cpu, lock);
            true
        },
        over: |_, _, _, _| {},
        switched_out: spinning::switched_out,
        switched_in: spinning::switched_in,
    };
}

impl Default for &Algorithm {
    fn default() -> Self {
        &Algorithm::BASE
    }
}

/// One atomic operation on a lock that looks free.
pub(crate) fn take_if_free(world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
    let is_free = world.locks[lock as usize].holder == FREE;
    if is_free {
        let ns = world.atomic_ns(cpu, lock);
        world.take(cpu, task, lock, ns);
    }
    is_free
}

/// The locks with these algorithms, and after them those inside of them.
pub(crate) fn build(names: &[&str]) -> Vec<Lock> {
    let found = names.iter().filter_map(|name| find(name)).enumerate();
    let mut locks: Vec<Lock> = found.map(|(place, algorithm)| Lock::new(algorithm, place as u32)).collect();
    for lock in 0..locks.len() {
        if let Some(inner) = locks[lock].algorithm.inner {
            locks[lock].inner = locks.len() as u32;
            let line = if inner.has_own_line { locks.len() } else { lock };
            locks.push(Lock::new(inner, line as u32));
        }
    }
    locks
}

/// What the locks of a load are called, in the order of what was seen of them: by their algorithms, with a number where
/// several have the same; those inside of others are the lists of these.
pub fn names(load: &[&str]) -> Vec<String> {
    let own = load.iter().enumerate().map(|(place, name)| match load.iter().filter(|n| *n == name).count() {
        1 => (*name).to_owned(),
        _ => format!("{name} {}", load[..place].iter().filter(|n| *n == name).count() + 1),
    });
    let mut names: Vec<String> = own.collect();
    let inside: Vec<String> = load
        .iter()
        .zip(&names)
        .filter(|(algorithm, _)| find(algorithm).is_some_and(|a| a.inner.is_some()))
        .map(|(_, name)| format!("{name}: list"))
        .collect();
    names.extend(inside);
    names
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Lock {
    pub(crate) algorithm: &'static Algorithm,
    /// The exclusive holder.
    pub(crate) holder: u32,
    /// How many hold it shared.
    pub(crate) sharers: u32,
    /// How many tasks are inside, exclusively and shared, regardless of its word.
    pub(crate) inside: [u32; 2],
    /// The CPU that wrote its line last.
    pub(crate) last_cpu: u32,
    /// The CPU that wrote what it protects last.
    pub(crate) data_cpu: u32,
    /// What writing it still takes, because others have it as well; the release comes after that, ns.
    pub(crate) data_ns: u64,
    /// When the release of the last holder is seen by others, ns.
    pub(crate) visible_at: u64,
    /// Waiters that spin on a CPU and read the line, in no order; each knows its place.
    pub(crate) spinners: Vec<u32>,
    /// Since when its spinners wait for a holder that is off its CPU, not counted yet.
    pub(crate) behind_since: Option<u64>,
    /// Waiters in the order of their numbers, of their sleep.
    pub(crate) queue: VecDeque<u32>,
    /// A list of waiters and their numbers: those that want it exclusively, those that want it shared, those that wait until
    /// it is free. A waiter with another number or none by now has left it.
    pub(crate) list: [VecDeque<(u32, u32)>; 3],
    /// How many are in the list.
    pub(crate) listed: u32,
    /// The spinner that will see first that the lock is free.
    pub(crate) first_to_see: u32,
    /// The mark in its word that a waiter may sleep.
    pub(crate) is_marked: bool,
    /// Of a lock with a list: whether a release may wake (`LW_FLAG_RELEASE_OK`).
    pub(crate) may_wake: bool,
    /// Of a lock with a list: the number of the next one in it.
    pub(crate) next_number: u32,
    /// With no holder: the lock is reserved for a woken waiter (holdfast).
    pub(crate) is_granted: bool,
    /// What its word says beside that (holdfast).
    pub(crate) hints: u16,
    /// How many writes its line has seen: a CPU that read it after the last one has a copy.
    pub(crate) writes: u32,
    /// A CPU that has a copy of the line beside `last_cpu`.
    pub(crate) sharer: u32,
    /// Until when those that asked for the line before are served, ns.
    pub(crate) line_free_at: u64,
    /// For how long its spinners have waited for the line instead of looking, since the beginning, ns.
    pub(crate) stalled_ns: u64,
    /// The mean of the turns that waiters looked for (`__spins` of pthread's adaptive mutex).
    pub(crate) mean_turns: i32,
    /// When a release hands the lock to a waiter instead of freeing it, ns (parking_lot).
    pub(crate) fair_at: u64,
    /// What each process remembers of it (holdfast).
    pub(crate) places: Vec<Place>,
    /// The lock inside this one.
    pub(crate) inner: u32,
    /// The lock whose line its word stands on: its own, or the outer one's.
    pub(crate) line: u32,
}

impl Lock {
    pub(crate) fn new(algorithm: &'static Algorithm, line: u32) -> Self {
        let (holder, first_to_see, inner, sharer) = (FREE, NONE, NONE, NONE);
        Lock { algorithm, line, holder, first_to_see, inner, sharer, may_wake: true, ..Lock::default() }
    }
}

/// What a process remembers of a lock, on its own line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    /// How many waiters look for long.
    pub(crate) looking: u32,
    /// How many sleep, until they have a CPU.
    pub(crate) sleeping: u32,
    /// Long looks that did not pay.
    pub(crate) in_vain: u32,
    /// When it was handed over last, before which time it is not, and when a waiter was woken for it, us.
    pub(crate) handed_over_us: u64,
    pub(crate) not_before_us: u64,
    pub(crate) woke_us: u64,
    /// The CPU that has the line.
    pub(crate) cpu: u32,
}

#[cfg(test)]
mod tests;
