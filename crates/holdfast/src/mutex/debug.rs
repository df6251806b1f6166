//! Who holds the mutexes of this process, and where they were taken: the feature `debug`.
//!
//! Holders of other processes, and those that take the lock in C, are not known; what is not known is not complained about. The layout of
//! the lock stays.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

type Holders = BTreeMap<usize, (ThreadId, &'static Location<'static>)>;

fn holders() -> MutexGuard<'static, Holders> {
    static HOLDERS: Mutex<Holders> = Mutex::new(BTreeMap::new());
    HOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn this_thread() -> ThreadId {
    std::thread::current().id()
}

/// Panics where the calling thread would wait for itself.
#[track_caller]
pub(super) fn before_lock(lock: usize, is_locked: bool) {
    let holder = holders().get(&lock).copied();
    // An entry of a free lock is of one that was in this memory before.
    if let Some((thread, taken)) = holder.filter(|(thread, _)| is_locked && *thread == this_thread()) {
        let here = Location::caller();
        panic!("mutex {lock:#x}: {thread:?} took it at {taken} and takes it again at {here}");
    }
}

#[track_caller]
pub(super) fn took(lock: usize) {
    holders().insert(lock, (this_thread(), Location::caller()));
}

/// Panics where the calling thread does not hold the lock.
#[track_caller]
pub(super) fn gives(lock: usize, is_locked: bool) {
    let (me, here) = (this_thread(), Location::caller());
    let holder = holders().get(&lock).copied();
    match holder {
        Some((thread, _)) if thread == me => {
            holders().remove(&lock);
        }
        Some((thread, taken)) if is_locked => {
            panic!(
                "mutex {lock:#x}: {me:?} does not hold it and gives it back at {here}; {thread:?} took it at {taken}"
            );
        }
        _ if !is_locked => panic!("mutex {lock:#x}: no thread holds it, and {me:?} gives it back at {here}"),
        _ => {}
    }
}
