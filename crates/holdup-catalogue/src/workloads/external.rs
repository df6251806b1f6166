//! The parameters of `external`.

use crate::parameters::{parameters, words};
use crate::{Bytes, CommandLine, Nanoseconds, Placement, Sharing};

words! {
    /// The reference tools.
    Tool {
        /// rt-tests.
        Cyclictest,
        /// rt-tests.
        Hackbench,
        /// `perf bench sched`.
        PerfBench,
        /// sockperf.
        Sockperf,
        /// uperf.
        Uperf,
        /// schbench.
        Schbench,
        /// iperf3(1).
        Iperf3,
        /// sysbench.
        Sysbench,
    }
}

words! {
    /// What a tool does that does several things.
    Mode {
        /// sockperf.
        PingPong,
        /// sockperf.
        UnderLoad,
        /// sockperf.
        Throughput,
        /// perf-bench.
        Messaging,
        /// perf-bench.
        Pipe,
        /// uperf, iperf3.
        Read,
        /// uperf, iperf3.
        Write,
        /// sysbench.
        Threads,
        /// sysbench.
        Mutex,
        /// sysbench.
        Cpu,
    }
}

words! {
    /// How messages go.
    Protocol {
        /// RFC 9293.
        Tcp,
        /// RFC 768.
        Udp,
        /// unix(7).
        Unix,
        /// pipe(2).
        Pipe,
    }
}

parameters! {
    /// What a plan sets of `external`. All but `tool` and `placement` stay absent when not given: the tool's own default
    /// holds then.
    "external"

    /// the tool
    tool: Tool,
    /// where the two sides run: anywhere, on one CPU, on two cores, …
    placement: Placement = "none",
    /// what sockperf, perf-bench, uperf, iperf3 or sysbench does
    mode: Option<Mode>,
    /// how messages go
    protocol: Option<Protocol>,
    /// what tasks are (hackbench, perf-bench, uperf)
    sharing: Option<Sharing>,
    /// threads (cyclictest, sysbench), workers per messenger (schbench)
    threads: Option<u64> [1..=4096],
    /// time between wake-ups (cyclictest)
    interval: Option<Nanoseconds>,
    /// what each thread's interval is longer (cyclictest)
    distance: Option<Nanoseconds>,
    /// SCHED_FIFO priority; 0 is SCHED_OTHER (cyclictest)
    priority: Option<u64> [0..=99],
    /// groups (hackbench, perf-bench)
    groups: Option<u64> [1..=10_000],
    /// senders and the same number of receivers per group (hackbench)
    senders: Option<u64> [1..=10_000],
    /// message threads (schbench)
    messengers: Option<u64> [1..=4096],
    /// messages per sender and receiver, or wake-ups of a thread: fixed work
    loops: Option<u64> [1..=i64::MAX],
    /// bytes of a message or a transfer
    size: Option<Bytes>,
    /// connections (iperf3, uperf)
    connections: Option<u64> [1..=100_000],
    /// messages or requests per second (sockperf, schbench, iperf3)
    rate: Option<u64> [1..=i64::MAX],
    /// messages sent one right after the other (sockperf)
    burst: Option<u64> [1..=1_000_000],
    /// one of n messages is answered (sockperf under-load)
    reply_every: Option<u64> [1..=1_000_000],
    /// further arguments, as the tool has them, as a list or after `--`
    arguments: Option<CommandLine>,
}
