//! What the workload `pgbench` is made of: its parameters, tables, load, clock, summary, metrics.

mod builds;
mod clock;
mod load;
mod metrics;
pub mod parameters;
mod pool;
mod server;
pub mod session;
mod summary;
mod tables;
mod two_ends;

pub use metrics::metrics;
pub use two_ends::SHARED;
