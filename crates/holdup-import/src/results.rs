//! What a file of results says.

use holdup_model::trial::NamedHistogram;
use holdup_model::{Fact, Measurement, Metric};
use std::collections::{BTreeMap, BTreeSet};

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

impl Results {
    /// A kind names all that its tool may print; a file has a part of it.
    pub(crate) fn drop_unused_metrics(&mut self) {
        let measurements = self.samples.iter().flat_map(|sample| &sample.measurements);
        let measured: BTreeSet<String> = measurements.map(|m| m.metric.clone()).collect();
        self.metrics.retain(|metric| measured.is_empty() || measured.contains(&metric.id));
    }

    /// Adds a metric, unless there is one of its id.
    pub(crate) fn add_metric(&mut self, metric: Metric) {
        if !self.metrics.iter().any(|known| known.id == metric.id) {
            self.metrics.push(metric);
        }
    }

    /// Adds those of another file.
    pub(crate) fn add(&mut self, other: Results) {
        other.metrics.into_iter().for_each(|metric| self.add_metric(metric));
        self.samples.extend(other.samples);
        self.facts.extend(other.facts.into_iter().filter(|fact| !self.facts.contains(fact)).collect::<Vec<_>>());
        for caution in other.cautions {
            if !self.cautions.contains(&caution) {
                self.cautions.push(caution);
            }
        }
    }
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// What was compared, where the file itself holds several such (a kernel, a system): the name of the arm.
    pub compared: Option<String>,
    /// What the run was made with, such as `clients` = `64`: each combination is an arm.
    pub labels: BTreeMap<String, String>,
    /// When it began, ns since 1970, where the file says so.
    pub begin_unix_ns: Option<i64>,
    /// How long it was measured, ns, where the file says so.
    pub length_ns: Option<u64>,
    pub measurements: Vec<Measurement>,
    /// Its distributions, ns.
    pub histograms: Vec<NamedHistogram>,
    /// Why it does not count: it was cut, or failed.
    pub void: Option<String>,
    /// What else is worth keeping.
    pub notes: Vec<String>,
}

impl Sample {
    /// Void for this reason where nothing was measured, unless it is void for another.
    pub(crate) fn or_void(mut self, why: &str) -> Self {
        if self.measurements.is_empty() && self.void.is_none() {
            self.void = Some(why.to_owned());
        }
        self
    }
}
