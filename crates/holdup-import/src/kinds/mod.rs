//! The tools whose results can be read: one file each, and its line in [`KINDS`].

mod criterion;
mod cyclictest;
mod fio;
mod go_bench;
mod google_benchmark;
mod hackbench;
mod hyperfine;
mod iperf3;
mod jmh;
mod netperf;
mod perf_bench;
mod pgbench;
mod schbench;
mod sockperf;
mod stress_ng;
mod sysbench;
mod uperf;

use crate::{Input, Results};
use holdup_model::{Direction, Meta, Metric, Problem};

/// A tool whose results can be read.
pub struct Kind {
    /// What it says about itself.
    pub meta: Meta,
    /// Whether the begin of a file looks like it.
    pub(crate) looks_like: fn(&str) -> bool,
    /// Reads a file.
    pub(crate) read: fn(&mut Input<'_>) -> Result<Results, Problem>,
}

/// All of them.
pub static KINDS: &[Kind] = &[
    criterion::KIND,
    cyclictest::KIND,
    fio::KIND,
    go_bench::KIND,
    google_benchmark::KIND,
    hackbench::KIND,
    hyperfine::KIND,
    iperf3::KIND,
    jmh::KIND,
    netperf::KIND,
    perf_bench::KIND,
    pgbench::KIND,
    schbench::KIND,
    sockperf::KIND,
    stress_ng::KIND,
    sysbench::KIND,
    uperf::KIND,
];

/// The one with this id.
pub fn find(id: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.meta.id == id)
}

/// A metric of a tool.
pub(crate) fn metric(id: &str, unit: &str, better: Direction, summary: &str) -> Metric {
    Metric { id: id.to_owned(), unit: unit.to_owned(), better, summary: summary.to_owned() }
}
