//! What a file of results says.

use holdup_model::trial::NamedHistogram;
use holdup_model::{Fact, Measurement, Metric};
use std::collections::BTreeMap;

/// What one file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// The metrics that its samples have; the first is the one that comparisons are about.
    pub metrics: Vec<Metric>,
    /// Its runs, in the order of the file.
    pub samples: Vec<Sample>,
    /// What it says of the host.
    pub facts: Vec<Fact>,
    /// What is wrong with how the tool reckons, and what the file cannot say: sentences.
    pub cautions: Vec<String>,
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// What the run was made with, such as `clients` = `64`: each combination is an arm.
    pub labels: BTreeMap<String, String>,
    /// When it began, ns since 1970, where the file says so.
    pub begin_unix_ns: Option<i64>,
    /// How long it was measured, ns, where the file says so.
    pub length_ns: Option<u64>,
    /// What was measured.
    pub measurements: Vec<Measurement>,
    /// Its distributions, ns.
    pub histograms: Vec<NamedHistogram>,
    /// Why it does not count: it was cut, or failed.
    pub void: Option<String>,
    /// What else is worth keeping.
    pub notes: Vec<String>,
}
