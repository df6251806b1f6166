//! What `lock-contention` is made of, outside the catalogue of algorithms.
//!
//! One trial: [`region`] is the memory that all workers share, [`worker`] the measured loop,
//! [`workers`] starts and ends threads or processes, [`faults`] is the memory whose first touches
//! fault, [`calibrate`] turns nanoseconds into iterations, [`trial`] coordinates, [`results`] turns
//! counts into metrics.

pub mod bare;
pub mod calibrate;
mod faults;
pub mod lock;
mod region;
pub(crate) mod results;
pub(crate) mod rseq;
pub mod setup;
pub mod trial;
mod worker;
mod workers;

#[cfg(test)]
mod exhaustive;
