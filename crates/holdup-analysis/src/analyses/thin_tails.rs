//! Percentiles that rest on too few samples.

use super::{Context, note};
use crate::words;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Finding, Meta};
use holdup_stats::is_thin;
use std::collections::BTreeMap;

pub static META: Meta = Meta {
    id: "thin-tails",
    summary: "percentiles with fewer than 10 samples beyond them",
    docs: "A percentile is as good as the number of samples beyond it. With fewer than 10 in a trial, the value is \
           a matter of luck. The metric of a trial counts that trial's samples; the tables of an arm count \
           those of all its trials, so they can carry farther.",
    references: &["docs/statistics.md"],
};

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let mut thin: BTreeMap<String, (f64, Vec<u32>)> = BTreeMap::new();
    let mut looked = 0_usize;
    for trial in context.bundle().trials.iter().filter(|t| t.is_done()) {
        for measurement in trial.measurements.iter().filter(|m| m.value.value().is_some()) {
            let Some((name, quantile)) = percentile(&measurement.metric) else { continue };
            let Some(histogram) = trial.histogram(name) else { continue };
            looked += 1;
            if is_thin(histogram, quantile) {
                let entry = thin.entry(measurement.metric.clone()).or_insert((f64::INFINITY, Vec::new()));
                entry.0 = entry.0.min(histogram.samples_beyond(quantile));
                entry.1.push(trial.seq);
            }
        }
    }
    if looked == 0 {
        let sentence = "No percentile of a trial has its histogram in the bundle.".to_owned();
        return vec![note(&META, FindingVerdict::Skipped, sentence)];
    }
    if thin.is_empty() {
        let sentence = "Every reported percentile has at least 10 samples beyond it in each trial.".to_owned();
        return vec![note(&META, FindingVerdict::Refuted, sentence)];
    }
    let names: Vec<&str> = thin.keys().map(String::as_str).collect();
    let sentence =
        format!("Fewer than 10 samples lie beyond {} in some trials: read them with care.", words::list(&names));
    let details = thin
        .iter()
        .map(|(metric, (least, seqs))| {
            format!(
                "{metric}: {}, with as few as {} beyond.",
                words::count(seqs.len(), "trial"),
                words::number(least.round())
            )
        })
        .collect();
    let mut trials: Vec<u32> = thin.into_values().flat_map(|(_, seqs)| seqs).collect();
    trials.sort_unstable();
    trials.dedup();
    vec![Finding { details, trials, ..note(&META, FindingVerdict::Supported, sentence) }]
}

/// The histogram and the quantile behind a metric such as `latency_p99_us` or `acquire_p999_ns`.
fn percentile(metric: &str) -> Option<(&str, f64)> {
    let (name, rest) = metric.rsplit_once("_p")?;
    let (digits, unit) = rest.split_once('_')?;
    if !matches!(unit, "us" | "ns" | "ms" | "s") || digits.is_empty() || digits.len() > 6 {
        return None;
    }
    let parsed: u32 = digits.parse().ok()?;
    // p5 would be read as 50 %; holdup writes two digits at least: p50, p95, p99, p999.
    let quantile = f64::from(parsed) / 10_f64.powi(i32::try_from(digits.len()).ok()?);
    (digits.len() >= 2 && quantile > 0.0).then_some((name, quantile))
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles_are_read_from_names() {
        let check = |metric: &str, expect: Option<(&str, f64)>| assert_eq!(percentile(metric), expect, "{metric}");
        check("latency_p99_us", Some(("latency", 0.99)));
        check("acquire_p999_ns", Some(("acquire", 0.999)));
        check("schedule_lag_p50_us", Some(("schedule_lag", 0.5)));
        check("latency_mean_us", None);
        check("tps", None);
        check("ops_per_s", None);
        check("x_p9_us", None);
    }
}
