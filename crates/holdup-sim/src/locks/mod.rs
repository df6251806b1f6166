//! The locks: one algorithm per file, and this list. Those that `lock-contention` has carry its names.

mod futex_mutex;
mod postgres_s_lock;
mod spinning;
mod tas;
mod ticket;

use crate::world::World;
use holdup_model::Meta;

/// The holder of a lock that nobody holds.
pub(crate) const FREE: u32 = u32::MAX;

/// What algorithms differ in.
pub(crate) trait Algorithm: Sync + std::fmt::Debug {
    /// What it says about itself.
    fn meta(&self) -> &'static Meta;
    /// A running task wants the lock and does not get it at once: it begins to spin or enters the kernel.
    fn waits(&self, world: &mut World, cpu: u32, task: u32, lock: u32);
    /// The running task has given the lock back. Whether its program goes on at once; if not, a segment was begun.
    fn released(&self, world: &mut World, cpu: u32, task: u32, lock: u32) -> bool;
    /// What a waiter did is over: it saw something, it has spun long enough, or the kernel is done.
    fn over(&self, world: &mut World, cpu: u32, task: u32, lock: u32);
    /// A spinning waiter was taken off its CPU.
    fn switched_out(&self, world: &mut World, cpu: u32, task: u32, lock: u32);
    /// A waiter that spun when it was taken off has a CPU again.
    fn switched_in(&self, world: &mut World, cpu: u32, task: u32, lock: u32);
}

/// Every algorithm, in the order shown to users.
pub(crate) const ALL: &[&dyn Algorithm] =
    &[&tas::Tas, &postgres_s_lock::SLock, &ticket::Ticket, &futex_mutex::FutexMutex];

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

/// A lock.
#[derive(Debug, Clone)]
pub(crate) struct Lock {
    pub(crate) algorithm: &'static dyn Algorithm,
    /// Who holds it.
    pub(crate) holder: u32,
    /// The CPU that wrote its line last.
    pub(crate) last_cpu: u32,
    /// Waiters that spin on a CPU, in the order in which they came.
    pub(crate) spinners: Vec<u32>,
    /// Waiters in the order of their numbers, or of their sleep.
    pub(crate) queue: std::collections::VecDeque<u32>,
    /// The spinner that will see first that the lock is free.
    pub(crate) first_to_see: u32,
    /// Whether a waiter may sleep.
    pub(crate) has_sleepers: bool,
}

impl Lock {
    pub(crate) fn new(algorithm: &'static dyn Algorithm) -> Self {
        Lock {
            algorithm,
            holder: FREE,
            last_cpu: 0,
            spinners: Vec::new(),
            queue: std::collections::VecDeque::new(),
            first_to_see: FREE,
            has_sleepers: false,
        }
    }

    /// Whether who comes now has the lock at once.
    pub(crate) fn may_take(&self) -> bool {
        self.holder == FREE
    }
}
