//! What every load engine of holdup is made of.
//!
//! [`board`] is the memory that all workers of a trial share, [`crew`] starts and ends them as threads or as processes,
//! [`drive`] leads them through warm-up and window, [`record`] counts durations where they happen, [`placement`] says
//! on which CPUs the two sides of a workload run, [`files`] makes room for open files, [`parameters`] reads a checked
//! plan's, [`account`] asks the kernel about a worker, [`metrics`] turns counts into measurements.

pub(crate) mod account;
pub(crate) mod board;
pub mod clock;
pub(crate) mod crew;
pub(crate) mod drive;
pub(crate) mod files;
pub mod metrics;
pub(crate) mod network;
pub(crate) mod parameters;
pub mod placement;
pub mod record;
