//! The parameters of `replay`.

use crate::Nanoseconds;
use crate::parameters::parameters;
use std::path::PathBuf;

parameters! {
    /// What a plan sets of `replay`.
    "replay"

    /// the trace: perf.data, trace.dat, Perfetto, SchedViz or their text
    trace: PathBuf,
    /// the longest simulated time of a trial; without it ten times the trace's
    timeout: Option<Nanoseconds> [1..=i64::MAX],
}
