//! The bench of locks: what the workload `lock-contention` measures.
//!
//! In it: [`algorithms`], the catalogue of locks, one file each, and the trial in which workers take one. [`lock`] is what
//! an algorithm is, [`worker`] the measured loop, [`region`] the memory that all workers share, [`note`] declares the
//! critical sections in the binary, [`truth`] publishes the holder for tests, [`workers`] starts and ends threads or
//! processes, [`faults`] is the memory whose first touches fault, [`calibrate`] turns nanoseconds into iterations,
//! [`trial`] coordinates, [`results`] turns counts into metrics.
//!
//! Not in it: the workload's line in the catalogue (`holdup-workloads`), and the simulator's locks (`holdup-sim`).
//!
//! Start with [`lock`], then [`worker`].

pub mod algorithms;
mod arch;
pub mod bare;
pub mod calibrate;
mod faults;
pub mod lock;
pub(crate) mod note;
mod queue;
pub(crate) mod record;
mod region;
pub mod results;
pub mod setup;
mod slice;
pub mod syscall;
pub mod trial;
pub mod truth;
mod worker;
mod workers;

#[cfg(test)]
mod exhaustive;
