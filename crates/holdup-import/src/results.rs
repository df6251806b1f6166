//! What a file of results says.

use holdup_model::trial::NamedHistogram;
use holdup_model::{Fact, Measured, Measurement, Metric};
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

    /// The ids of its metrics, for [`Results::add_metric`].
    pub(crate) fn metric_ids(&self) -> BTreeSet<String> {
        self.metrics.iter().map(|metric| metric.id.clone()).collect()
    }

    /// Adds a metric, unless there is one of its id.
    pub(crate) fn add_metric(&mut self, known: &mut BTreeSet<String>, metric: Metric) {
        if known.insert(metric.id.clone()) {
            self.metrics.push(metric);
        }
    }
}

/// The results of all files, each metric, fact and caution once.
impl FromIterator<Results> for Results {
    fn from_iter<T: IntoIterator<Item = Results>>(files: T) -> Self {
        let mut all = Results::default();
        let (mut metrics, mut facts, mut cautions) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for file in files {
            file.metrics.into_iter().for_each(|metric| all.add_metric(&mut metrics, metric));
            all.samples.extend(file.samples);
            all.facts.extend(file.facts.into_iter().filter(|fact| facts.insert(fact.clone())));
            all.cautions.extend(file.cautions.into_iter().filter(|caution| cautions.insert(caution.clone())));
        }
        all
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
    /// The memory that it takes, bytes, with its trial in a bundle.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let texts = self.labels.iter().flat_map(|(key, value)| [key, value]).chain(&self.notes);
        let texts = texts.chain(&self.compared).chain(&self.void);
        let texts: usize = texts.map(|text| 64 + 2 * text.len()).sum();
        let reason = |m: &Measurement| match &m.value {
            Measured::Absent(why) => why.len(),
            Measured::Value(_) => 0,
        };
        let measured: usize = self.measurements.iter().map(|m| 128 + m.metric.len() + reason(m)).sum();
        let counted: usize = self.histograms.iter().map(|h| 128 + h.histogram.memory_bytes()).sum();
        (1024 + texts + measured + counted) as u64
    }

    /// Adds a measurement in place of an earlier one of its metric, of which a damaged file may have any number.
    pub(crate) fn measure(&mut self, measurement: Measurement) {
        self.measurements.retain(|known| known.metric != measurement.metric);
        self.measurements.push(measurement);
    }

    /// Void for this reason where nothing was measured, unless it is void for another.
    pub(crate) fn or_void(mut self, why: &str) -> Self {
        if self.measurements.is_empty() && self.void.is_none() {
            self.void = Some(why.to_owned());
        }
        self
    }
}
