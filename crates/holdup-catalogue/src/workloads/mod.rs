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

use holdup_model::Parameter;

/// A workload as it is declared.
#[derive(Debug, Clone, Copy)]
pub struct Declared {
    pub id: &'static str,
    pub parameters: &'static [Parameter],
}

/// Every workload, in the order shown to users. Those of `mixed` are followed by its members'.
pub const ALL: &[Declared] = &[
    pgbench::DECLARED,
    lock_contention::DECLARED,
    wakeup::DECLARED,
    messenger::DECLARED,
    request::DECLARED,
    ping::DECLARED,
    stream::DECLARED,
    mixed::DECLARED,
    replay::DECLARED,
    command::DECLARED,
    external::DECLARED,
];

/// The declaration of this workload.
pub fn find(id: &str) -> Option<&'static Declared> {
    ALL.iter().find(|declared| declared.id == id)
}
