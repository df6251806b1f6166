//! The locks: one algorithm per file, and this list. Those that `lock-contention` has carry its names.
//!
//! What an algorithm costs is said in operations on cache lines. A read or write of a line that another CPU wrote last
//! moves it here, which takes a time that depends on the distance; an atomic operation waits for that, a plain write
//! does not, because it stands in the store buffer meanwhile: the writer goes on, and the others see it later. A write
//! to a line that others spin on waits for each of them to be served.

mod futex_mutex;
mod lwlock;
mod lwlock_futex;
mod mcs;
mod postgres_s_lock;
mod pthread_mutex;
mod queued;
mod slice_extension;
mod spinning;
mod tas;
mod ticket;
mod ttas_backoff;

use crate::world::World;
use holdup_model::Meta;
use std::collections::VecDeque;

/// The holder of a lock that nobody holds.
pub(crate) const FREE: u32 = u32::MAX;

/// No lock, no task, no place.
pub(crate) const NONE: u32 = u32::MAX;

/// What algorithms differ in.
pub(crate) trait Algorithm: Sync + std::fmt::Debug {
    /// What it says about itself.
    fn meta(&self) -> &'static Meta;
    /// The algorithm of the lock inside this one, where there is one: what protects a list of waiters.
    fn inner(&self) -> Option<&'static dyn Algorithm> {
        None
    }
    /// A running task tries once. Whether it has the lock.
    fn tries(&self, world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
        let is_free = world.locks[lock as usize].holder == FREE;
        if is_free {
            let ns = world.atomic_ns(cpu, lock);
            world.take(cpu, task, lock, ns);
        }
        is_free
    }
    /// A running task wants the lock and does not get it at once: it begins to spin or enters the kernel.
    fn waits(&self, world: &mut World, cpu: u32, task: u32, lock: u32);
    /// The running task gives the lock back. Whether its program goes on at once; if not, a segment was begun.
    fn released(&self, world: &mut World, cpu: u32, task: u32, lock: u32) -> bool;
    /// What a task did for the lock is over: it saw something, it has spun long enough, or the kernel is done.
    fn over(&self, world: &mut World, cpu: u32, task: u32, lock: u32);
    /// A spinning waiter was taken off its CPU.
    fn switched_out(&self, _world: &mut World, _task: u32, _lock: u32) {}
    /// A waiter that spun when it was taken off has a CPU again.
    fn switched_in(&self, _world: &mut World, _task: u32, _lock: u32) {}
}

/// Every algorithm, in the order shown to users.
pub(crate) const ALL: &[&dyn Algorithm] = &[
    &tas::Tas,
    &slice_extension::SliceExtension,
    &ttas_backoff::TtasBackoff,
    &postgres_s_lock::SLock,
    &ticket::Ticket,
    &mcs::Mcs,
    &futex_mutex::FutexMutex,
    &pthread_mutex::PthreadMutex,
    &lwlock::LwLock,
    &lwlock_futex::LwLockFutex,
];

/// What every algorithm says about itself, in the order shown to users.
pub fn catalogue() -> impl Iterator<Item = &'static Meta> {
    ALL.iter().map(|a| a.meta())
}

/// The algorithm with this id.
pub(crate) fn find(id: &str) -> Option<&'static dyn Algorithm> {
    ALL.iter().copied().find(|a| a.meta().id == id)
}

/// The ids of the locks, in the order shown to users.
pub fn ids() -> Vec<&'static str> {
    ALL.iter().map(|a| a.meta().id).collect()
}

/// The id of a lock of this name, if there is one.
pub fn id(name: &str) -> Option<&'static str> {
    find(name).map(|a| a.meta().id)
}

/// The locks with these algorithms, and after them those inside of them.
pub(crate) fn build(names: &[&str]) -> Vec<Lock> {
    let found = names.iter().filter_map(|name| find(name)).enumerate();
    let mut locks: Vec<Lock> = found.map(|(place, algorithm)| Lock::new(algorithm, place as u32)).collect();
    for lock in 0..locks.len() {
        if let Some(inner) = locks[lock].algorithm.inner() {
            locks[lock].inner = locks.len() as u32;
            locks.push(Lock::new(inner, lock as u32));
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
        .filter(|(algorithm, _)| find(algorithm).is_some_and(|a| a.inner().is_some()))
        .map(|(_, name)| format!("{name}: list"))
        .collect();
    names.extend(inside);
    names
}

/// A lock.
#[derive(Debug, Clone)]
pub(crate) struct Lock {
    pub(crate) algorithm: &'static dyn Algorithm,
    /// Who holds it, exclusively.
    pub(crate) holder: u32,
    /// How many hold it shared.
    pub(crate) sharers: u32,
    /// Who is inside: how many took it exclusively and shared and have not given it back, whatever its word says.
    pub(crate) inside: [u32; 2],
    /// The CPU that wrote its line last.
    pub(crate) last_cpu: u32,
    /// The CPU that wrote what it protects last.
    pub(crate) data_cpu: u32,
    /// What writing it still takes, because others have it as well; the release comes after that, ns.
    pub(crate) data_ns: u64,
    /// When the release of the last holder is seen by others, ns.
    pub(crate) visible_at: u64,
    /// Waiters that spin on a CPU and look at the line, in no order; each knows its place.
    pub(crate) spinners: Vec<u32>,
    /// Since when who spins does so behind a holder that is off its CPU and was not counted.
    pub(crate) behind_since: Option<u64>,
    /// Waiters in the order of their numbers, of their sleep.
    pub(crate) queue: VecDeque<u32>,
    /// A list of waiters and their numbers: those that want it exclusively, those that want it shared, those that want to
    /// be told when it is free. One that has another number or none by now has left it.
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
    /// The lock inside this one.
    pub(crate) inner: u32,
    /// The lock whose line its word stands on: its own, or the outer one's.
    pub(crate) line: u32,
}

impl Lock {
    pub(crate) fn new(algorithm: &'static dyn Algorithm, line: u32) -> Self {
        Lock {
            algorithm,
            holder: FREE,
            sharers: 0,
            inside: [0; 2],
            last_cpu: 0,
            data_cpu: 0,
            data_ns: 0,
            visible_at: 0,
            spinners: Vec::new(),
            behind_since: None,
            queue: VecDeque::new(),
            list: [const { VecDeque::new() }; 3],
            listed: 0,
            first_to_see: NONE,
            is_marked: false,
            may_wake: true,
            next_number: 0,
            inner: NONE,
            line,
        }
    }
}

#[cfg(test)]
mod tests;
