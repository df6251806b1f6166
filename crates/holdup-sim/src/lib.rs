//! A Linux machine that does not exist: CPUs, run queues, preemption, locks and faults, event by event.
//!
//! A [`machine::Machine`] says how many CPUs there are, what things cost on them and which kernel runs; a
//! [`world::Load`] says what runs, as small programs; [`world::World`] carries it out. The same machine, load and seed
//! give the same events on any host: time is integer nanoseconds, and nothing depends on the order of hashes, on the
//! host's clock or on its C library.

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
