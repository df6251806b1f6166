//! The catalogue of workloads: one file each, and this list.

pub mod command;
pub mod lock_contention;
pub mod mixed;
pub mod pgbench;
pub mod stream;
pub mod wakeup;

use crate::Workload;

/// Every workload, in the order shown to users.
pub const ALL: &[&dyn Workload] = &[
    &pgbench::Pgbench,
    &lock_contention::LockContention,
    &wakeup::Wakeup,
    &stream::Stream,
    &command::Command,
    &mixed::Mixed,
];
