//! From counts to metrics.

use crate::wakeup::setup::Setup;
use crate::wakeup::worker::{Slot, Slots};
use holdup_load::TrialResult;
use holdup_load::metrics::{self, Row};
use holdup_load::record;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Direction, Histogram, Measurement, Metric, Problem};
use holdup_stats::tail::Tail;
use std::sync::atomic::Ordering;

/// What is measured, in the order shown.
pub(crate) const METRICS: &[Row] = &[
    ("latency_p50_us", "us", Direction::Lower, "how late a wake-up is, median"),
    ("latency_p99_us", "us", Direction::Lower, "how late a wake-up is, 99th percentile"),
    ("latency_p999_us", "us", Direction::Lower, "how late a wake-up is, 99.9th percentile"),
    ("tail_1e5_us", "us", Direction::Lower, "lateness that one of 100,000 wake-ups exceeds, from a fit to the tail"),
    ("cycles", "1", Direction::Higher, "wake-ups of all threads in the window"),
    ("missed_periods", "1", Direction::Lower, "moments that were over before their thread had woken"),
    ("cpu_us_per_cycle", "us", Direction::Lower, "CPU time of the threads per wake-up"),
];

/// The share of wake-ups that the fitted level is exceeded by.
const LEVEL: f64 = 1e-5;
/// The most threads whose histograms are kept apart; beyond it there is only the one of all together.
const SHOWN_THREADS: usize = 64;

/// The metrics of the workload.
pub(crate) fn metrics() -> Vec<Metric> {
    metrics::table(METRICS)
}

/// What a trial brought. All threads have ended.
pub(crate) fn of(setup: &Setup, slots: &Slots, length_ns: u64) -> Result<TrialResult, Problem> {
    let all = record::together(slots.slots().map(|s| &s.late));
    if all.count() == 0 {
        return Err(Problem::trial("the window", "no thread woke in it").hint("take a longer duration"));
    }
    let missed: u64 = slots.slots().map(|s| s.missed.load(Ordering::Relaxed)).sum();
    let mut measurements =
        metrics::percentiles_us(["latency_p50_us", "latency_p99_us", "latency_p999_us"], &all).to_vec();
    measurements.extend([
        tail(&all),
        Measurement::new("cycles", all.count() as f64),
        Measurement::new("missed_periods", missed as f64),
        cpu(slots, all.count()),
    ]);
    let mut histograms = vec![];
    if (2..=SHOWN_THREADS).contains(&setup.threads) {
        histograms.extend(slots.slots().enumerate().map(|(index, slot)| NamedHistogram {
            name: format!("latency of thread {index}"),
            histogram: record::together(std::iter::once(&slot.late)),
        }));
    }
    let longest_us = all.range_ns().map_or(0.0, |(_, longest)| longest as f64 / 1e3);
    let mut notes = vec![format!("the latest of {} wake-ups was {longest_us:.1} us late", all.count())];
    notes.extend(shortfall(setup, slots, length_ns));
    histograms.insert(0, NamedHistogram { name: "latency".to_owned(), histogram: all });
    Ok(TrialResult::new(measurements, histograms, notes))
}

fn tail(all: &Histogram) -> Measurement {
    let values: Vec<(f64, u64)> = all.buckets().map(|(low, high, n)| ((low + high) as f64 / 2.0, n)).collect();
    match Tail::fit(&values) {
        Ok(tail) => Measurement::new("tail_1e5_us", tail.level(LEVEL) / 1e3),
        Err(why) => Measurement::absent("tail_1e5_us", why.to_string()),
    }
}

/// CPU time between the moments at which each thread saw the window's edges.
fn cpu(slots: &Slots, cycles: u64) -> Measurement {
    let of = |slot: &Slot| {
        let [opened, closed] = slot.cpu_ns.each_ref().map(|edge| edge.load(Ordering::Relaxed));
        (opened != 0 && closed != 0).then(|| closed.saturating_sub(opened))
    };
    match slots.slots().map(of).sum::<Option<u64>>() {
        Some(ns) => Measurement::new("cpu_us_per_cycle", ns as f64 / 1e3 / cycles as f64),
        None => Measurement::absent("cpu_us_per_cycle", "a thread did not wake after an edge of the window"),
    }
}

/// Wake-ups and missed moments must be as many as the window has intervals, but for one at each edge and for those
/// between a late wake-up and the edge; said when it is not so.
fn shortfall(setup: &Setup, slots: &Slots, length_ns: u64) -> Option<String> {
    slots.slots().enumerate().find_map(|(index, slot)| {
        let interval_ns = setup.interval_of(index);
        let counted = slot.late.total() + slot.missed.load(Ordering::Relaxed);
        let expected = length_ns / interval_ns;
        let blind = 2 + slot.late.longest_ns() / interval_ns;
        (counted.abs_diff(expected) > blind).then(|| {
            format!("thread {index} accounts for {counted} of the {expected} moments of the window: it was late at its edges")
        })
    })
}
