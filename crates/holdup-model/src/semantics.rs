//! What a workload declares about its metrics, for analyses that know no workload.

use crate::Value;
use serde::{Deserialize, Serialize};

/// What the metrics of a workload mean beside their direction. Part of the plan in a bundle; older bundles have none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Semantics {
    /// Its closed loops.
    pub closed_loops: Vec<ClosedLoop>,
    /// Metrics that describe the measurement and are no result: they are shown, and no hypothesis is tested on them.
    pub diagnostics: Vec<String>,
}

/// A closed loop: a fixed number of requests is in flight, and each is followed by the next. Little's law holds in it:
/// in flight = throughput × (latency + think time).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClosedLoop {
    /// The parameters whose product is the number in flight.
    pub in_flight: Vec<String>,
    /// The parameters and the values with which the loop is closed; one that is absent counts as equal.
    pub closed_when: Vec<(String, Value)>,
    /// The metric that is the throughput, 1/s.
    pub throughput: String,
    /// The mean latency: a metric in us, or a histogram.
    pub latency: String,
    /// What a request does between two.
    pub think: Think,
}

/// The time of a closed loop in which a request is not in flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Think {
    /// This metric has its mean, us; where it is absent there is none.
    Measured(String),
    /// It is not measured, so throughput × latency is at most the number in flight.
    Unmeasured,
}

impl Semantics {
    /// The same for a workload that takes part in another, where parameters are named `KIND.parameter`, and metrics
    /// `KIND.metric` unless the workload is in the foreground.
    #[must_use]
    pub fn of_member(&self, kind: &str, is_foreground: bool) -> Semantics {
        let parameter = |name: &String| format!("{kind}.{name}");
        let metric = |id: &String| if is_foreground { id.clone() } else { format!("{kind}.{id}") };
        let closed_loops = self.closed_loops.iter().map(|l| ClosedLoop {
            in_flight: l.in_flight.iter().map(parameter).collect(),
            closed_when: l.closed_when.iter().map(|(name, value)| (parameter(name), value.clone())).collect(),
            throughput: metric(&l.throughput),
            latency: metric(&l.latency),
            think: match &l.think {
                Think::Measured(id) => Think::Measured(metric(id)),
                Think::Unmeasured => Think::Unmeasured,
            },
        });
        Semantics { closed_loops: closed_loops.collect(), diagnostics: self.diagnostics.iter().map(metric).collect() }
    }
}
