//! The catalogue of lock algorithms: one file each, and this list.

pub mod clh;
pub mod futex_mutex;
pub mod holdfast;
pub mod holdfast_slice;
pub mod mcs;
pub mod parking_lot;
pub mod postgres_s_lock;
pub mod pthread_adaptive;
pub mod pthread_mutex;
pub mod pthread_spin;
pub mod slice_extension;
pub mod std_mutex;
pub mod tas;
pub mod ticket;
pub mod ttas;
pub mod ttas_backoff;
pub mod ttas_no_pause;
pub mod ttas_wfe;
pub mod ttas_yield;

use crate::lock::Algorithm;

/// Every algorithm, in the order shown to users.
pub const ALL: &[&Algorithm] = &[
    &tas::ALGORITHM,
    &slice_extension::ALGORITHM,
    &ttas::ALGORITHM,
    &ttas_no_pause::ALGORITHM,
    &ttas_yield::ALGORITHM,
    &ttas_wfe::ALGORITHM,
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
];

pub fn find(id: &str) -> Option<&'static Algorithm> {
    ALL.iter().copied().find(|a| a.meta.id == id)
}

/// Those that work on this machine.
#[doc(hidden)]
pub fn usable() -> impl Iterator<Item = &'static Algorithm> {
    ALL.iter().copied().filter(|a| a.probe().is_usable())
}
