//! Windows added up since the begin: what an exporter shows.

use crate::families::{self, Family, Kind, Reading, Seen};
use holdup_model::explanation::ArmExplanation;
use holdup_model::{SparseHistogram, Trial};
use std::collections::BTreeMap;

/// The value of each label of a series whose own values have no room.
pub const OTHER: &str = "other";

/// A series that did not grow for this long gives its place to a new one, ns of windows.
const IDLE_NS: u64 = 3_600_000_000_000;

/// What a series has.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A sum, or what it is now.
    Number(f64),
    /// A distribution of durations.
    Durations(SparseHistogram),
}

/// One series of a family.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub value: Value,
    /// When it last grew, ns of windows since the begin.
    grown_ns: u64,
}

/// The families of one thing that is watched, and their series.
pub struct Counters {
    /// The value of the label `watched`.
    watched: String,
    /// Series of a family at most, beside the one that has the rest.
    most: usize,
    seen_ns: u64,
    families: Vec<(&'static Family, BTreeMap<Vec<String>, Series>)>,
}

impl Counters {
    /// Nothing counted yet. `most` is how many series a family has, beside `other`.
    pub fn new(watched: impl Into<String>, most: usize) -> Self {
        let families = families::all().map(|family| (family, BTreeMap::new())).collect();
        Counters { watched: watched.into(), most, seen_ns: 0, families }
    }

    /// The value of the label `watched`.
    pub fn watched(&self) -> &str {
        &self.watched
    }

    /// Adds a window, with what can be said about it alone, on a machine with this number of CPUs.
    pub fn add(&mut self, trial: &Trial, alone: Option<&ArmExplanation>, cpus: u32) {
        let Some(seen) = Seen::of(trial, alone, cpus) else { return };
        self.seen_ns = self.seen_ns.saturating_add(trial.window.map_or(0, |window| window.length_ns));
        for (family, series) in &mut self.families {
            if family.kind == Kind::Gauge {
                series.clear();
            }
            let (most, now_ns) = (self.most, self.seen_ns);
            (family.read)(&seen, &mut |labels, reading| add(series, most, now_ns, labels, reading));
        }
    }

    /// What it watches is away: gauges are of nothing then.
    pub fn gone(&mut self) {
        self.families.iter_mut().filter(|(f, _)| f.kind == Kind::Gauge).for_each(|(_, series)| series.clear());
    }

    /// The families with their series, in the order of the list.
    pub fn families(&self) -> impl Iterator<Item = (&'static Family, &BTreeMap<Vec<String>, Series>)> {
        self.families.iter().map(|(family, series)| (*family, series))
    }
}

fn add(all: &mut BTreeMap<Vec<String>, Series>, most: usize, now_ns: u64, labels: &[&str], reading: Reading<'_>) {
    let own: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
    let key =
        if all.contains_key(&own) || has_room(all, most, now_ns) { own } else { vec![OTHER.to_owned(); own.len()] };
    let series = all.entry(key).or_insert_with(|| Series { value: empty(&reading), grown_ns: now_ns });
    match (&mut series.value, reading) {
        (Value::Number(sum), Reading::Number(more)) => {
            // What a collector brings is never below zero; a counter that went back would look like a restart.
            let more = if more.is_finite() { more.max(0.0) } else { 0.0 };
            *sum += more;
            series.grown_ns = if more > 0.0 { now_ns } else { series.grown_ns };
        }
        (Value::Durations(sum), Reading::Durations(more)) => {
            sum.add(more);
            series.grown_ns = if more.count() > 0 { now_ns } else { series.grown_ns };
        }
        // A family has one kind of reading.
        (Value::Number(_), Reading::Durations(_)) | (Value::Durations(_), Reading::Number(_)) => {}
    }
}

fn empty(reading: &Reading<'_>) -> Value {
    match reading {
        Reading::Number(_) => Value::Number(0.0),
        Reading::Durations(_) => Value::Durations(SparseHistogram::new()),
    }
}

/// True if a new series has room; the one that has not grown for longest goes where that is an hour or more.
fn has_room(all: &mut BTreeMap<Vec<String>, Series>, most: usize, now_ns: u64) -> bool {
    if all.len() < most {
        return true;
    }
    let is_own = |labels: &[String]| labels.iter().any(|label| label != OTHER);
    let idle = all.iter().filter(|(labels, _)| is_own(labels)).min_by_key(|(_, series)| series.grown_ns);
    let idle = idle.filter(|(_, series)| now_ns.saturating_sub(series.grown_ns) >= IDLE_NS).map(|(key, _)| key.clone());
    idle.is_some_and(|key| all.remove(&key).is_some())
}
