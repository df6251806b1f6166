//! The parameters of `wakeup`.

use crate::parameters::{parameters, words};
use crate::{Nanoseconds, Placement};

words! {
    /// The program that measures.
    By {
        /// This program.
        Holdup,
        /// cyclictest(8) of rt-tests.
        Cyclictest,
    }
}

/// The longest interval, ns: a trial cannot end before the last of its threads wakes.
pub const LONGEST_NS: i64 = 1_000_000_000;

parameters! {
    /// What a plan sets of `wakeup`.
    "wakeup"

    /// threads, each with its own timer
    threads: u32 [1..=4096] = "1x cpus",
    /// time from one wake-up of the first thread to the next, 10 us to 1 s
    interval: Nanoseconds [10_000..=LONGEST_NS] = "1ms",
    /// how much longer the interval of each further thread is
    distance: Nanoseconds [0..=LONGEST_NS] = "0",
    /// SCHED_FIFO priority of the threads; 0 is SCHED_OTHER
    priority: u32 [0..=99] = "0",
    /// whether thread i stays on the i-th of the CPUs, round and round
    pin: bool = "on",
    /// the CPUs that the threads run on, such as 0-3,8
    cpus: String = "allowed",
    /// where the two sides run: anywhere, on one CPU, on two cores, …
    placement: Placement = "none",
    /// the program that measures: holdup, or a reference tool that is installed
    #[real]
    by: By = "holdup",
}
