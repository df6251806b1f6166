//! The metrics of `external`: those of holdup's own workloads, with the same ids and units.

use holdup_load::metrics::{self, Row};
use holdup_model::{Direction, Metric};

use Direction::{Higher, Lower};

/// All of them. What a tool does not measure is absent with that reason.
pub const ALL: &[Row] = &[
    ("latency_p50_us", "us", Lower, "latency, median (cyclictest, sysbench)"),
    ("latency_p99_us", "us", Lower, "latency, 99th percentile (cyclictest, sysbench)"),
    ("latency_p999_us", "us", Lower, "latency, 99.9th percentile (cyclictest, sysbench)"),
    ("latency_max_us", "us", Lower, "longest latency (cyclictest, sysbench)"),
    ("cycles", "1", Higher, "wake-ups of all threads (cyclictest)"),
    ("total_time_s", "s", Lower, "time for the fixed work, by the tool's own clock"),
    ("messages_per_s", "1/s", Higher, "messages over the total time (hackbench, perf-bench)"),
    ("wakeup_p50_us", "us", Lower, "wake-up latency, median (schbench)"),
    ("wakeup_p99_us", "us", Lower, "wake-up latency, 99th percentile (schbench)"),
    ("wakeup_p999_us", "us", Lower, "wake-up latency, 99.9th percentile (schbench)"),
    ("request_p50_us", "us", Lower, "request latency, median (schbench)"),
    ("request_p99_us", "us", Lower, "request latency, 99th percentile (schbench)"),
    ("requests_per_s", "1/s", Higher, "requests (schbench)"),
    ("throughput_gbit_per_s", "Gbit/s", Higher, "payload that arrived (iperf3, uperf)"),
    ("transfers_per_s", "1/s", Higher, "transfers of `size` bytes (uperf)"),
    ("retransmissions", "1", Lower, "TCP segments that were sent again (iperf3)"),
    ("cpu_s_per_gb", "s/GB", Lower, "CPU time of client and server per 10^9 bytes that arrived"),
    ("messages_sent", "1", Higher, "messages that the client handed to its socket"),
    ("messages_received", "1", Higher, "messages that reached the other program"),
    ("messages_dropped", "1", Lower, "messages that the kernel dropped"),
    ("sent_per_s", "1/s", Higher, "messages sent"),
    ("delivered_per_s", "1/s", Higher, "messages that reached the other program"),
    ("rtt_p50_us", "us", Lower, "round-trip time, median (sockperf)"),
    ("rtt_p99_us", "us", Lower, "round-trip time, 99th percentile (sockperf)"),
    ("rtt_p999_us", "us", Lower, "round-trip time, 99.9th percentile (sockperf)"),
    ("rtt_max_us", "us", Lower, "longest round-trip time (sockperf)"),
    ("rtt_mean_us", "us", Lower, "mean round-trip time (perf-bench pipe, sockperf)"),
    ("events_per_s", "1/s", Higher, "events (sysbench)"),
    ("cpu_s", "s", Lower, "CPU time of the tool and its server, start and end included"),
    ("duration_s", "s", Lower, "how long the tool ran, start and end included"),
];

/// As tables show them.
pub fn all() -> Vec<Metric> {
    metrics::table(ALL)
}
