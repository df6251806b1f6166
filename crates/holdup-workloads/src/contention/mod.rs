//! What `lock-contention` is made of, outside the catalogue of algorithms.
//!
//! One trial: [`region`] is the memory that all workers share, [`worker`] the measured loop,
//! [`note`] declares its critical sections in the binary, [`truth`] lets tests see who holds the lock,
//! [`workers`] starts and ends threads or processes, [`faults`] is the memory whose first touches
//! fault, [`calibrate`] turns nanoseconds into iterations, [`trial`] coordinates, [`results`] turns
//! counts into metrics.

pub mod bare;
pub mod calibrate;
mod faults;
pub mod lock;
pub(crate) mod note;
pub(crate) mod record;
mod region;
pub(crate) mod results;
pub(crate) mod rseq;
pub mod setup;
pub(crate) mod syscall;
pub mod trial;
pub mod truth;
mod worker;
mod workers;

#[cfg(test)]
mod exhaustive;
