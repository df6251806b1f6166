//! What workloads are, for those that run them and those that simulate them.
//!
//! Each file of [`workloads`] declares the parameters of one workload, once: names, types, bounds, defaults, words and
//! help, and whether the simulator has them. Out of one declaration come the table that the plan checker, the command
//! line and `holdup list` read, and the struct that the real and the simulated workload read.
//!
//! Not here: how a workload runs (the crates of layer 2), how it is simulated (`holdup-sim`), what it measures.
//!
//! Start with `workloads/pgbench.rs`, then `parameters.rs` for what the macro makes of it.
#![forbid(unsafe_code)]

mod parameters;
pub mod reports;
mod shared;
pub mod workloads;

pub use parameters::{Bytes, CommandLine, FromValue, Nanoseconds, defaults};
pub use shared::{Algorithm, Placement, Sharing};
pub use workloads::*;
