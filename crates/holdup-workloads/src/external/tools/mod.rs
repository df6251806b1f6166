//! The catalogue of tools: one file each, and this list.

pub(crate) mod cyclictest;
pub(crate) mod hackbench;
pub(crate) mod iperf3;
pub(crate) mod perf_bench;
pub(crate) mod schbench;
pub(crate) mod sockperf;
pub(crate) mod sysbench;
pub(crate) mod uperf;

use crate::external::Tool;
use holdup_catalogue::external;

/// Every tool, in the order shown to users.
pub(crate) const ALL: &[&dyn Tool] = &[
    &cyclictest::Cyclictest,
    &hackbench::Hackbench,
    &perf_bench::PerfBench,
    &sockperf::Sockperf,
    &uperf::Uperf,
    &schbench::Schbench,
    &iperf3::Iperf3,
    &sysbench::Sysbench,
];

/// The tool of a word of plans.
pub(crate) fn find(tool: external::Tool) -> &'static dyn Tool {
    ALL.iter().copied().find(|t| t.about().tool == tool).expect("a test holds both lists together")
}

/// Where the highest percentiles say little, by the count of samples behind them: fewer than ten lie beyond.
pub(crate) fn thin(name: &str, count: f64, reading: &mut crate::external::Reading) {
    for (share, percentile) in [(0.01, "99"), (0.001, "99.9")] {
        if count * share < 10.0 {
            reading.note(format!(
                "{name}: percentiles from {percentile} on rest on fewer than 10 of {count} observations"
            ));
            return;
        }
    }
}
