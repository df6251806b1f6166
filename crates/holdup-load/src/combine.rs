//! The results of several client hosts as one.

use holdup_model::trial::{NamedHistogram, TrialResult};
use holdup_model::{Histogram, Measured, Measurement};

/// How the values that client hosts measured of one metric become one. Percentiles are those of all durations together:
/// a mean of percentiles is the percentile of nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Combination {
    /// They add up.
    Sum,
    /// The largest, in units of `unit_ns`.
    Largest {
        /// The unit's length, ns.
        unit_ns: f64,
    },
    /// The mean, where each counts as much as this metric of its host.
    MeanBy(&'static str),
    /// A percentile of the merged histograms of this name, in units of `unit_ns`.
    Percentile {
        histogram: &'static str,
        /// Which percentile, from 0 to 1.
        quantile: f64,
        /// The unit's length, ns.
        unit_ns: f64,
    },
    /// They cannot become one, for this reason.
    Absent(&'static str),
}

impl Combination {
    /// By the name of the metric: `per` is what means of operations are weighted by.
    pub fn usual(metric: &str, per: &'static str) -> Self {
        let percentile = |quantile| Combination::Percentile { histogram: "latency", quantile, unit_ns: 1e3 };
        match metric {
            "latency_p50_us" => percentile(0.5),
            "latency_p95_us" => percentile(0.95),
            "latency_p99_us" => percentile(0.99),
            "latency_p999_us" => percentile(0.999),
            "latency_max_us" => Combination::Largest { unit_ns: 1e3 },
            _ if ["_mean_us", "_per_message", "_per_gb"].iter().any(|end| metric.ends_with(end)) => {
                Combination::MeanBy(per)
            }
            _ => Combination::Sum,
        }
    }
}

/// The result of all; that of a single host is left as it is.
pub(crate) fn combined(
    names: &[String],
    mut results: Vec<TrialResult>,
    combine: fn(&str) -> Combination,
) -> TrialResult {
    if results.len() < 2 {
        return results.pop().unwrap_or_default();
    }
    let histograms = merged(&results);
    let clock_error_ns = results.iter().filter_map(|result| result.clock_error_ns).max();
    let all = All { names, results: &results, histograms: &histograms, clock_error_ns };
    let of = |own: &Measurement| all.one(&own.metric, combine(&own.metric));
    let measurements = results[0].measurements.iter().map(of).collect();
    let notes = names.iter().zip(&results).flat_map(|(name, result)| notes_of(name, result)).collect();
    TrialResult { measurements, histograms, notes, clock_error_ns }
}

/// Histograms that every host has.
fn merged(results: &[TrialResult]) -> Vec<NamedHistogram> {
    let of_all = |first: &NamedHistogram| {
        let mut histogram = Histogram::new();
        for result in results {
            histogram.add(&result.histograms.iter().find(|other| other.name == first.name)?.histogram);
        }
        Some(NamedHistogram { name: first.name.clone(), histogram })
    };
    results[0].histograms.iter().filter_map(of_all).collect()
}

/// What each host brought, one line of numbers for each, and its own notes.
fn notes_of(name: &str, result: &TrialResult) -> Vec<String> {
    let shown = |m: &Measurement| m.value.value().map(|value| format!("{} {value:.6}", m.metric));
    let numbers: Vec<String> = result.measurements.iter().filter_map(shown).collect();
    let alone = format!("{name} alone: {}", numbers.join(", "));
    std::iter::once(alone).chain(result.notes.iter().map(|note| format!("{name}: {note}"))).collect()
}

/// What all hosts brought.
struct All<'a> {
    names: &'a [String],
    results: &'a [TrialResult],
    histograms: &'a [NamedHistogram],
    clock_error_ns: Option<i64>,
}

impl All<'_> {
    fn one(&self, metric: &str, combination: Combination) -> Measurement {
        match combination {
            Combination::Sum => self.of_values(metric, |values| values.iter().sum()),
            Combination::Largest { unit_ns } => {
                let largest = self.of_values(metric, |values| values.iter().copied().fold(f64::MIN, f64::max));
                self.decided(largest, unit_ns)
            }
            Combination::MeanBy(by) => self.mean(metric, by),
            Combination::Percentile { histogram, quantile, unit_ns } => {
                match self.histograms.iter().find(|named| named.name == histogram) {
                    Some(named) => {
                        self.decided(Measurement::percentile(metric, &named.histogram, quantile, unit_ns), unit_ns)
                    }
                    None => self.absent(metric).unwrap_or_else(|| {
                        Measurement::absent(metric, format!("not every client host has a histogram `{histogram}`"))
                    }),
                }
            }
            Combination::Absent(why) => {
                self.absent(metric).unwrap_or_else(|| Measurement::absent(metric, why.to_owned()))
            }
        }
    }

    fn value(&self, at: usize, metric: &str) -> Option<&Measured> {
        self.results[at].measurements.iter().find(|own| own.metric == metric).map(|own| &own.value)
    }

    /// Absent where it is absent on a host, for the reason of the first of these; the host is named unless it is that of all.
    fn absent(&self, metric: &str) -> Option<Measurement> {
        let reasons: Vec<(&str, &str)> = (0..self.results.len())
            .filter_map(|at| match self.value(at, metric) {
                Some(Measured::Value(_)) => None,
                Some(Measured::Absent(why)) => Some((self.names[at].as_str(), why.as_str())),
                None => Some((self.names[at].as_str(), "it was not measured")),
            })
            .collect();
        let (name, why) = *reasons.first()?;
        let is_of_all = reasons.len() == self.results.len() && reasons.iter().all(|(_, other)| *other == why);
        Some(Measurement::absent(metric, if is_of_all { why.to_owned() } else { format!("{name}: {why}") }))
    }

    fn of_values(&self, metric: &str, of: impl Fn(&[f64]) -> f64) -> Measurement {
        let values: Vec<f64> = (0..self.results.len()).filter_map(|at| self.value(at, metric)?.value()).collect();
        self.absent(metric).unwrap_or_else(|| Measurement::new(metric, of(&values)))
    }

    /// A host that counted nothing has no part in a mean.
    fn mean(&self, metric: &str, by: &str) -> Measurement {
        let (mut sum, mut weights) = (0.0, 0.0);
        for at in 0..self.results.len() {
            let weight = self.value(at, by).and_then(Measured::value).unwrap_or(0.0);
            match self.value(at, metric).and_then(Measured::value) {
                Some(value) => {
                    sum += value * weight;
                    weights += weight;
                }
                None if weight == 0.0 => {}
                None => return self.absent(metric).unwrap_or_else(|| Measurement::absent(metric, "it is not known")),
            }
        }
        match self.absent(metric) {
            Some(absent) if weights == 0.0 => absent,
            _ => Measurement::new(metric, sum / weights),
        }
    }

    /// A time that is not longer than the clocks of any two hosts may be off is not known.
    fn decided(&self, time: Measurement, unit_ns: f64) -> Measurement {
        match self.clock_error_ns {
            Some(ns) => crate::two_ends::ClockError { ns }.decide(time, unit_ns),
            None => time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn how(metric: &str) -> Combination {
        match metric {
            "tps" => Combination::Sum,
            "connect_ms" => Combination::Largest { unit_ns: 1e6 },
            "mean_us" => Combination::MeanBy("tps"),
            "fairness" => Combination::Absent("each host has its own"),
            _ => Combination::Percentile { histogram: "latency", quantile: 0.5, unit_ns: 1e3 },
        }
    }

    /// A host whose latencies are all the same.
    fn host(count: u64, us: u64) -> TrialResult {
        let mut histogram = Histogram::new();
        histogram.record_n_ns(us * 1_000, count);
        let mean = match count {
            0 => Measurement::absent("mean_us", "none ended"),
            _ => Measurement::new("mean_us", us as f64),
        };
        TrialResult {
            measurements: vec![
                Measurement::new("tps", count as f64),
                mean,
                Measurement::percentile("p50_us", &histogram, 0.5, 1e3),
                Measurement::new("connect_ms", us as f64),
                Measurement::new("fairness", 1.0),
            ],
            histograms: vec![NamedHistogram { name: "latency".to_owned(), histogram }],
            notes: vec!["a note".to_owned()],
            clock_error_ns: None,
        }
    }

    fn of(results: Vec<TrialResult>) -> (Vec<String>, TrialResult) {
        let names: Vec<String> = ["load1", "load2", "load3"].iter().map(|name| (*name).to_owned()).collect();
        let all = combined(&names[..results.len()], results, how);
        let shown = |m: &Measurement| match &m.value {
            Measured::Value(value) => format!("{} {value:.1}", m.metric),
            Measured::Absent(why) => format!("{}: {why}", m.metric),
        };
        (all.measurements.iter().map(shown).collect(), all)
    }

    #[test]
    fn rates_add_up_and_percentiles_are_those_of_all_durations() {
        let (shown, all) = of(vec![host(900, 100), host(100, 1_000)]);
        // The mean of both medians would be 550 us, and nine of ten transactions took 100 us.
        assert_eq!(
            shown,
            ["tps 1000.0", "mean_us 190.0", "p50_us 100.0", "connect_ms 1000.0", "fairness: each host has its own"]
        );
        assert_eq!(all.histograms[0].histogram.count(), 1_000);
        assert!(
            all.notes[0].starts_with("load1 alone: tps 900.0") && all.notes[1] == "load1: a note",
            "{:?}",
            all.notes
        );
    }

    #[test]
    fn what_is_thin_on_each_host_may_be_known_of_all() {
        let thin = host(12, 100);
        assert!(thin.measurements[2].value.value().is_none());
        assert_eq!(of(vec![thin.clone(), thin]).0[2], "p50_us 100.0");
    }

    #[test]
    fn a_host_that_did_nothing_has_no_part_in_the_mean_and_what_is_absent_names_its_host() {
        assert_eq!(of(vec![host(0, 1), host(50, 100)]).0[..2], ["tps 50.0", "mean_us 100.0"]);
        assert_eq!(of(vec![host(0, 1), host(0, 1)]).0[1], "mean_us: none ended");
        let mut broken = host(50, 100);
        broken.measurements[0] = Measurement::absent("tps", "the window has no length");
        assert_eq!(of(vec![host(50, 100), broken]).0[0], "tps: load2: the window has no length");
        let mut none = host(50, 100);
        none.histograms.clear();
        none.measurements[2] = Measurement::absent("p50_us", "timing = off");
        assert_eq!(of(vec![host(50, 100), none]).0[2], "p50_us: load2: timing = off");
    }

    #[test]
    fn times_between_clocks_are_held_against_the_largest_error() {
        let with = |error_ns| TrialResult { clock_error_ns: Some(error_ns), ..host(50, 100) };
        assert_eq!(of(vec![with(10_000), with(90_000)]).0[2], "p50_us 100.0");
        let withheld = of(vec![with(10_000), with(150_000)]).0;
        assert!(withheld[2].contains("not decidable") && withheld[3].contains("connect_ms 100"), "{withheld:?}");
    }

    #[test]
    fn one_host_is_left_as_it_is() {
        assert_eq!(of(vec![host(5, 100)]).1, host(5, 100));
    }
}
