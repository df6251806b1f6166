//! The catalogue of workloads: one file each, and this list.

pub mod command;
pub mod external;
pub mod lock_contention;
pub mod messenger;
pub mod mixed;
pub mod pgbench;
pub mod ping;
pub mod replay;
pub mod request;
pub mod stream;
pub mod wakeup;

use holdup_load::Workload;

/// Every workload, in the order shown to users.
pub const ALL: &[&dyn Workload] = &[
    &pgbench::Pgbench,
    &lock_contention::LockContention,
    &wakeup::Wakeup,
    &messenger::Messenger,
    &request::Request,
    &ping::Ping,
    &stream::Stream,
    &mixed::Mixed,
    &replay::Replay,
    &command::Command,
    &external::External,
];
