//! The parameters of `request`.

use crate::parameters::{parameters, words};
use crate::{Nanoseconds, Placement};

words! {
    /// The program that measures.
    By {
        /// This program.
        Holdup,
        /// schbench.
        Schbench,
    }
}

/// The most messengers and workers together: each worker has 140 KB for its latencies.
pub const MOST_TASKS: i64 = 4096;

parameters! {
    /// What a plan sets of `request`.
    "request"

    /// threads that wake workers
    messengers: u32 [1..=MOST_TASKS - 1] = "1",
    /// threads that work, for each messenger
    workers: u32 [1..=MOST_TASKS - 1] = "1x cpus",
    /// one operation of a request, calibrated; 0 is really none
    work: Nanoseconds = "1ms",
    /// operations of a request, under the lock of the CPU
    operations: u64 [0..=1_000_000] = "5",
    /// sleep of a request before its operations
    think: Nanoseconds = "100us",
    /// whether operations hold a spin lock of the CPU that they begin on
    lock: bool = "on",
    /// requests per second that arrive at fixed distances; 0: when a worker asks
    rate: f64 [0.0..=1e7] = "0",
    /// where the two sides run: anywhere, on one CPU, on two cores, …
    placement: Placement = "none",
    /// the program that measures: holdup, or a reference tool that is installed
    by: By = "holdup",
}
