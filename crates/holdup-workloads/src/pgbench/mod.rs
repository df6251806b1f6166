//! What the workload `pgbench` is made of: its parameters, tables, load, clock, summary, metrics.

mod clock;
mod load;
mod metrics;
pub(crate) mod parameters;
mod pool;
mod server;
pub(crate) mod session;
mod summary;
mod tables;

pub(crate) use metrics::metrics;
