//! The parameters of `messenger`.

use crate::parameters::{parameters, words};
use crate::{Bytes, Placement, Sharing};

words! {
    /// What messages go through.
    Transport {
        /// AF_UNIX, SOCK_STREAM, socketpair(2).
        #[strum(serialize = "socketpair")]
        SocketPair,
        /// pipe(2).
        Pipe,
        /// A connection over 127.0.0.1, without TCP_NODELAY as hackbench has it.
        Tcp,
    }
}

words! {
    /// The program that measures.
    By {
        /// This program.
        Holdup,
        /// hackbench of rt-tests.
        Hackbench,
        /// `perf bench sched messaging`.
        PerfBench,
    }
}

parameters! {
    /// What a plan sets of `messenger`.
    "messenger"

    /// groups of senders and receivers
    groups: u32 [1..=8192] = "10",
    /// senders of a group
    senders: u32 [1..=8192] = "20",
    /// receivers of a group
    receivers: u32 [1..=8192] = "20",
    /// a message, up to 1 MB; with timing from 16 bytes
    size: Bytes [1..=1 << 20] = "100B",
    /// what the tasks are
    sharing: Sharing = "processes",
    /// what messages go through
    transport: Transport = "socketpair",
    /// of each sender to each receiver of its group; 0: until the window ends
    #[real]
    messages: u64 [0..=1_000_000_000] = "0",
    /// whether the latency of messages is measured
    timing: bool = "on",
    /// one of n messages is timed, at random distances
    sample_every: u64 [1..=1_000_000_000] = "16",
    /// where the two sides run: anywhere, on one CPU, on two cores, …
    placement: Placement = "none",
    /// the program that measures: holdup, or a reference tool that is installed
    #[real]
    by: By = "holdup",
}
