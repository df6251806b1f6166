//! The catalogue of workloads, one file each ([`workloads`]), and the engines that only one workload uses.
//!
//! In it: `ping`, `wakeup`, `messenger` and `request` with their engines, `command` and `external`, which run programs of
//! others, and `mixed`, which runs several workloads at the same time.
//!
//! Not in it: what a workload is and what engines are made of (`holdup-load`), and the engines that others use too:
//! `holdup-locks`, `holdup-postgres`, `holdup-stream`.
//!
//! Start with `workloads/wakeup.rs`, the smallest, and its engine in `wakeup/`.

mod command;
pub mod external;
pub mod messenger;
mod mixed;
pub mod ping;
pub mod request;
#[cfg(test)]
mod testing;
mod wakeup;
pub mod workloads;

use holdup_load::Workload;

pub fn find(id: &str) -> Option<&'static dyn Workload> {
    workloads::ALL.iter().copied().find(|w| w.meta().id == id)
}
