//! A simulated Linux machine: CPUs, run queues, preemption, locks and faults, event by event.
//!
//! A [`machine::Machine`] states the CPUs, what things cost on them and the kernel; a [`world::Load`] is what runs, as small
//! programs ([`program`]); [`world::World`] executes it. `sched` has the scheduling classes, [`locks`] the catalogue of locks,
//! [`preempt`] that of preemption models, [`workloads`] those of holdup as programs. The same machine, load and seed give the
//! same events on any host: time is integer nanoseconds, and nothing depends on hash order, the clock or the C library.
//!
//! Not here: trials and bundles (the target `sim` of `holdup-target`) and the language of docs/scenarios
//! (`holdup-scenarios`). Start with `world/mod.rs`, then `world/execute.rs` and `world/switch.rs`.

#![forbid(unsafe_code)]

pub mod agenda;
mod check;
pub mod combine;
pub mod factors;
pub(crate) mod locking;
pub mod locks;
pub mod machine;
pub mod names;
mod network;
mod placement;
pub mod preempt;
pub mod program;
pub mod random;
pub mod record;
pub mod sched;
pub mod stats;
pub mod workloads;
pub mod world;
