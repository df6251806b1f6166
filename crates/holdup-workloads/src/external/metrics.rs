//! The metrics of `external`: those of holdup's own workloads, with the same ids and units.

use holdup_model::{Direction, Metric};

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its id.
    pub id: &'static str,
    unit: &'static str,
    better: Direction,
    summary: &'static str,
}

const fn row(id: &'static str, unit: &'static str, better: Direction, summary: &'static str) -> Row {
    Row { id, unit, better, summary }
}

use Direction::{Higher, Lower};

/// All of them. What a tool does not measure is absent with that reason.
pub const ALL: &[Row] = &[
    row("latency_p50_us", "us", Lower, "latency, median (cyclictest, sysbench)"),
    row("latency_p99_us", "us", Lower, "latency, 99th percentile (cyclictest, sysbench)"),
    row("latency_p999_us", "us", Lower, "latency, 99.9th percentile (cyclictest, sysbench)"),
    row("latency_max_us", "us", Lower, "longest latency (cyclictest, sysbench)"),
    row("cycles", "1", Higher, "wake-ups of all threads (cyclictest)"),
    row("total_time_s", "s", Lower, "time for the fixed work, by the tool's own clock"),
    row("messages_per_s", "1/s", Higher, "messages over the total time (hackbench, perf-bench)"),
    row("wakeup_p50_us", "us", Lower, "wake-up latency, median (schbench)"),
    row("wakeup_p99_us", "us", Lower, "wake-up latency, 99th percentile (schbench)"),
    row("wakeup_p999_us", "us", Lower, "wake-up latency, 99.9th percentile (schbench)"),
    row("request_p50_us", "us", Lower, "request latency, median (schbench)"),
    row("request_p99_us", "us", Lower, "request latency, 99th percentile (schbench)"),
    row("requests_per_s", "1/s", Higher, "requests (schbench)"),
    row("throughput_gbit_per_s", "Gbit/s", Higher, "payload that arrived (iperf3, uperf)"),
    row("transfers_per_s", "1/s", Higher, "transfers of `size` bytes (uperf)"),
    row("retransmissions", "1", Lower, "TCP segments that were sent again (iperf3)"),
    row("cpu_s_per_gb", "s/GB", Lower, "CPU time of client and server per 10^9 bytes that arrived"),
    row("messages_sent", "1", Higher, "messages that the client handed to its socket"),
    row("messages_received", "1", Higher, "messages that reached the other program"),
    row("messages_dropped", "1", Lower, "messages that the kernel dropped"),
    row("sent_per_s", "1/s", Higher, "messages sent"),
    row("delivered_per_s", "1/s", Higher, "messages that reached the other program"),
    row("rtt_p50_us", "us", Lower, "round-trip time, median (sockperf)"),
    row("rtt_p99_us", "us", Lower, "round-trip time, 99th percentile (sockperf)"),
    row("rtt_p999_us", "us", Lower, "round-trip time, 99.9th percentile (sockperf)"),
    row("rtt_max_us", "us", Lower, "longest round-trip time (sockperf)"),
    row("rtt_mean_us", "us", Lower, "mean round-trip time (perf-bench pipe, sockperf)"),
    row("events_per_s", "1/s", Higher, "events (sysbench)"),
    row("cpu_s", "s", Lower, "CPU time of the tool and its server, start and end included"),
    row("duration_s", "s", Lower, "how long the tool ran, start and end included"),
];

/// As tables show them.
pub fn all() -> Vec<Metric> {
    let metric = |r: &Row| Metric {
        id: r.id.to_owned(),
        unit: r.unit.to_owned(),
        better: r.better,
        summary: r.summary.to_owned(),
    };
    ALL.iter().map(metric).collect()
}
