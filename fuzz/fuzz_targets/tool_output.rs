//! Nothing that a tool prints makes a reader of `external` panic, and what is read has known names and true numbers.
#![no_main]

use holdup_model::{Parameters, ProblemKind};
use holdup_workloads::external::snmp::{self, Udp};
use holdup_workloads::external::{ToolOutput, metrics, read};
use libfuzzer_sys::fuzz_target;

const TOOLS: [&str; 8] =
    ["cyclictest", "hackbench", "perf-bench", "sockperf", "uperf", "schbench", "iperf3", "sysbench"];

const MODES: [(&str, &str); 10] = [
    ("perf-bench", "messaging"),
    ("perf-bench", "pipe"),
    ("sockperf", "ping-pong"),
    ("sockperf", "under-load"),
    ("sockperf", "throughput"),
    ("uperf", "write"),
    ("uperf", "read"),
    ("sysbench", "threads"),
    ("sysbench", "mutex"),
    ("sysbench", "cpu"),
];

fuzz_target!(|input: (u8, bool, &str)| {
    let (which, datagrams, text) = input;
    let which = usize::from(which) % (TOOLS.len() + MODES.len());
    let mut parameters = Parameters::default();
    match which.checked_sub(TOOLS.len()) {
        None => parameters.set("tool", TOOLS[which]),
        Some(at) => {
            parameters.set("tool", MODES[at].0);
            parameters.set("mode", MODES[at].1);
        }
    }
    let tool = parameters.text("tool").ok().flatten().unwrap_or_default();
    if ["uperf", "iperf3", "sockperf"].contains(&tool) {
        parameters.set("protocol", if datagrams { "udp" } else { "tcp" });
    }
    // The first part is what it prints, the second what its server does, or both are the same.
    let (own, server) = text.split_once('\u{0}').unwrap_or((text, text));
    let udp = snmp::parse(text).unwrap_or(Udp { received: 1, sent: u64::MAX, queue_full: 2, errors: 3 });
    match read(&parameters, &ToolOutput { stdout: own, stderr: own, server, udp: Some(Ok(udp)) }) {
        Ok(reading) => {
            for id in reading.values.iter().map(|v| v.0).chain(reading.absent.iter().map(|a| a.0)) {
                assert!(metrics::ALL.iter().any(|row| row.0 == id), "{id}");
            }
        }
        Err(problem) => assert_eq!(problem.kind, ProblemKind::Trial, "{problem}"),
    }
});
