//! Trials: one run of one arm, whether it counts or not.

use crate::environment::Fact;
use crate::evidence::Collected;
use crate::histogram::Histogram;
use crate::metric::Measurement;
use serde::{Deserialize, Serialize};

/// Whether a trial counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum TrialStatus {
    /// It counts.
    #[default]
    Done,
    /// It does not count; it is kept with the reason.
    Void {
        /// Why.
        reason: String,
    },
}

/// The time in which a trial was measured, warm-up excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Begin, ns since 1970 (CLOCK_REALTIME).
    pub begin_unix_ns: i64,
    /// End, ns since 1970 (CLOCK_REALTIME).
    pub end_unix_ns: i64,
    /// Length by CLOCK_MONOTONIC, ns; a clock jump shows as a difference.
    pub length_ns: u64,
}

/// A histogram of a trial with its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedHistogram {
    /// Its name: `latency`, `schedule_lag`, `acquire`.
    pub name: String,
    /// The counts; values in ns.
    pub histogram: Histogram,
}

/// One trial as it was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Trial {
    /// Its place in the order in which trials really ran, repeats included, from 0.
    pub seq: u32,
    /// Its session, from 0.
    pub session: u32,
    /// Its boot, from 0, counted over all sessions.
    #[serde(default)]
    pub boot: u32,
    /// Its block, from 0, counted over all sessions.
    pub block: u32,
    /// Its place in the block.
    pub position: u32,
    /// The arm.
    pub arm: u32,
    /// 0 for the first attempt, 1 for the first repeat, and so on.
    pub attempt: u32,
    /// Whether it counts.
    pub status: TrialStatus,
    /// When its set-up began, ns since 1970.
    pub started_unix_ns: i64,
    /// When everything of it was over, ns since 1970.
    pub ended_unix_ns: i64,
    /// The window; `None` when it never opened.
    pub window: Option<Window>,
    /// Its metrics.
    pub measurements: Vec<Measurement>,
    /// Its full histograms.
    pub histograms: Vec<NamedHistogram>,
    /// Its evidence, one entry for each collector that ran.
    pub evidence: Vec<Collected>,
    /// The environment before it.
    pub environment_before: Vec<Fact>,
    /// The environment after it; only the facts that differ from before.
    pub environment_moved: Vec<Fact>,
    /// What else is worth keeping: lines of a program's output, for example.
    pub notes: Vec<String>,
}

/// How the note of a trial begins whose program was started with holdfast's locks before the C library's.
pub const OF_HOLDFAST: &str = "holdfast ";
/// The same, where none of its locks was one of holdfast's.
pub const HOLDFAST_HAD_NO_EFFECT: &str = "holdfast had no effect: ";

/// The name of the histogram that is looked at where trials have several: what the load engines call their latency, else
/// the first by name.
pub fn latency_histogram<'a>(trials: impl Iterator<Item = &'a Trial>) -> Option<&'a str> {
    let names = trials.flat_map(|t| &t.histograms).map(|h| h.name.as_str());
    names.min_by_key(|name| (*name != "latency", *name))
}

impl Trial {
    /// One that began now (ns since 1970), and of which nothing is known yet.
    pub fn begun(started_unix_ns: i64) -> Self {
        Trial { started_unix_ns, ended_unix_ns: started_unix_ns, ..Trial::default() }
    }

    /// True if it counts.
    pub fn is_done(&self) -> bool {
        self.status == TrialStatus::Done
    }

    /// The value of a metric, if it was measured.
    pub fn metric(&self, id: &str) -> Option<f64> {
        self.measurements.iter().find(|m| m.metric == id).and_then(|m| m.value.value())
    }

    /// The histogram with this name.
    pub fn histogram(&self, name: &str) -> Option<&Histogram> {
        self.histograms.iter().find(|h| h.name == name).map(|h| &h.histogram)
    }
}

/// What a trial brought.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Its metrics; every one that `Workload::metrics` names, measured or absent with a reason.
    pub measurements: Vec<Measurement>,
    /// Its full histograms, warm-up excluded.
    pub histograms: Vec<NamedHistogram>,
    /// What else is worth keeping.
    pub notes: Vec<String>,
    /// How far times from one host to the other may be off, where there are any.
    pub clock_error_ns: Option<i64>,
}

impl TrialResult {
    /// Without times between the clocks of two hosts.
    pub fn new(measurements: Vec<Measurement>, histograms: Vec<NamedHistogram>, notes: Vec<String>) -> Self {
        TrialResult { measurements, histograms, notes, clock_error_ns: None }
    }
}
