//! The catalogue of lock algorithms: one file each, and this list.

pub mod futex_mutex;
pub mod postgres_s_lock;
pub mod pthread_mutex;
pub mod slice_extension;
pub mod tas;
pub mod ticket;
pub mod ttas_backoff;

use crate::lock::Algorithm;

/// Every algorithm, in the order shown to users.
pub const ALL: &[&Algorithm] = &[
    &tas::ALGORITHM,
    &slice_extension::ALGORITHM,
    &ttas_backoff::ALGORITHM,
    &postgres_s_lock::ALGORITHM,
    &ticket::ALGORITHM,
    &futex_mutex::ALGORITHM,
    &pthread_mutex::ALGORITHM,
];

/// The algorithm with this id.
pub fn find(id: &str) -> Option<&'static Algorithm> {
    ALL.iter().copied().find(|a| a.meta.id == id)
}

/// Those that work on this machine.
#[doc(hidden)]
pub fn usable() -> impl Iterator<Item = &'static Algorithm> {
    ALL.iter().copied().filter(|a| a.probe().is_usable())
}
