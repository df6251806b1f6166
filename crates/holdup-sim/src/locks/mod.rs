//! The catalogue of simulated locks: one file each, and this list. A lock has the id of the real one in holdup's catalogue of
//! lock algorithms, or says why there is none.

mod clh;
mod futex_mutex;
pub(crate) mod holdfast;
mod holdfast_one_fetch;
mod holdfast_slice;
mod lwlock;
mod lwlock_futex;
mod lwlock_park;
mod mcs;
mod parking_lot;
mod postgres_s_lock;
mod postgres_s_lock_exchange;
mod postgres_s_lock_slice;
pub(crate) mod pthread_adaptive;
mod pthread_mutex;
mod pthread_spin;
mod slice_extension;
mod std_mutex;
mod tas;
mod ticket;
mod ttas;
mod ttas_backoff;

use crate::locking::Algorithm;

pub use crate::locking::names;

/// Every algorithm, in the order shown to users.
pub(crate) const ALL: &[&Algorithm] = &[
    &tas::ALGORITHM,
    &slice_extension::ALGORITHM,
    &ttas::ALGORITHM,
    &ttas_backoff::ALGORITHM,
    &postgres_s_lock::ALGORITHM,
    &pthread_spin::ALGORITHM,
    &ticket::ALGORITHM,
    &mcs::ALGORITHM,
    &clh::ALGORITHM,
    &futex_mutex::ALGORITHM,
    &pthread_mutex::ALGORITHM,
    &pthread_adaptive::ALGORITHM,
    &std_mutex::ALGORITHM,
    &parking_lot::ALGORITHM,
    &holdfast::ALGORITHM,
    &holdfast_slice::ALGORITHM,
    &lwlock::ALGORITHM,
    &lwlock_futex::ALGORITHM,
    &lwlock_park::ALGORITHM,
    &postgres_s_lock_exchange::ALGORITHM,
    &postgres_s_lock_slice::ALGORITHM,
    &postgres_s_lock_slice::EXCHANGE,
    &holdfast_one_fetch::ALGORITHM,
];

pub(crate) fn find(id: &str) -> Option<&'static Algorithm> {
    ALL.iter().copied().find(|a| a.id == id)
}

/// The ids of the locks, in the order shown to users.
pub fn ids() -> Vec<&'static str> {
    ALL.iter().map(|a| a.id).collect()
}

/// Why the lock with this id exists in the simulator only; `None` where it simulates a lock of holdup.
pub fn only_simulated(id: &str) -> Option<&'static str> {
    find(id).and_then(|a| a.only_simulated)
}

/// The id of a lock of this name, if there is one.
pub fn id(name: &str) -> Option<&'static str> {
    find(name).map(|a| a.id)
}
