//! How whole latency distributions moved: each arm against the baseline with the same axes.

use crate::index::Index;
use holdup_model::outcome::{LatencyShift, ShiftPoint};
use holdup_model::trial::latency_histogram;
use holdup_model::{Arm, Histogram, Trial};
use holdup_stats::{CURVE_QUANTILES, QuantileShift, quantile_shift_over_blocks, quantile_table};
use std::collections::{BTreeMap, BTreeSet};

/// The seed of the draws behind a band: fixed, so that a bundle always gives the same one.
const SEED: u64 = 1;

/// Latencies of an arm by session and block.
type Blocks = BTreeMap<(u32, u32), Histogram>;

/// Every arm against the arm of its workload that has every factor at the baseline and the same axes. An axis of
/// words beside the one that curves are drawn over acts like a factor.
pub(crate) fn all(index: &Index<'_>) -> Vec<LatencyShift> {
    index.arms().filter_map(|arm| between(index, partner(index, arm)?, arm)).collect()
}

pub(crate) fn partner<'a>(index: &Index<'a>, arm: &Arm) -> Option<&'a Arm> {
    let workload = index.bundle.plan.workload(&arm.workload)?;
    let drawn = workload.curve_axis().map(|a| a.name.as_str());
    let is_kept = |name: &str| {
        let axis = workload.axes.iter().find(|a| a.name == name);
        Some(name) == drawn || axis.is_some_and(holdup_model::Factor::is_numeric)
    };
    let is_first = |name: &str, label: &str| {
        let axis = workload.axes.iter().find(|a| a.name == name);
        axis.and_then(|a| a.levels.first()).is_some_and(|first| first.label == label)
    };
    let same_place = |other: &&Arm| {
        other.workload == arm.workload
            && other.replica.is_none()
            && other.factors.iter().all(|(name, level)| index.is_baseline(name, level))
            && other.axes.iter().all(|(name, level)| {
                if is_kept(name) {
                    arm.axes.get(name).is_some_and(|own| own.label == level.label)
                } else {
                    is_first(name, &level.label)
                }
            })
    };
    let found = index.arms().find(same_place)?;
    (found.id != arm.id).then_some(found)
}

/// One arm against another; `None` when one has no latencies.
pub(crate) fn between(index: &Index<'_>, baseline: &Arm, level: &Arm) -> Option<LatencyShift> {
    let name = latency_histogram(index.done(baseline.id).iter().copied())?.to_owned();
    let (a, b) = (by_block(index.done(baseline.id), &name), by_block(index.done(level.id), &name));
    let pairs = pieces(&a, &b);
    let (points, no_band) = match quantile_shift_over_blocks(&pairs, SEED) {
        Ok(shift) => (shift.iter().map(point).collect(), None),
        Err(no) => (without_band(&a, &b), Some(no.reason)),
    };
    Some(LatencyShift {
        workload: level.workload.clone(),
        histogram: name,
        baseline: baseline.id,
        level: level.id,
        pieces: u32::try_from(pairs.len()).unwrap_or(u32::MAX),
        points,
        no_band,
    })
    .filter(|shift| !shift.points.is_empty())
}

/// A and B of each independent piece: blocks, or sessions where there are several, because what a session shifts it
/// shifts in all of its blocks.
fn pieces(a: &Blocks, b: &Blocks) -> Vec<(Histogram, Histogram)> {
    let sessions: BTreeSet<u32> = a.keys().filter(|key| b.contains_key(key)).map(|(session, _)| *session).collect();
    let mut pieces: BTreeMap<(u32, u32), (Histogram, Histogram)> = BTreeMap::new();
    for ((session, block), of_a) in a {
        let Some(of_b) = b.get(&(*session, *block)) else { continue };
        let piece = if sessions.len() > 1 { (*session, 0) } else { (*session, *block) };
        let (sum_a, sum_b) = pieces.entry(piece).or_default();
        sum_a.add(of_a);
        sum_b.add(of_b);
    }
    pieces.into_values().collect()
}

fn by_block(trials: &[&Trial], name: &str) -> Blocks {
    let mut blocks = Blocks::new();
    for trial in trials {
        if let Some(histogram) = trial.histogram(name).filter(|h| h.count() > 0) {
            blocks.entry((trial.session, trial.block)).or_default().add(histogram);
        }
    }
    blocks
}

fn point(shift: &QuantileShift) -> ShiftPoint {
    ShiftPoint {
        quantile: shift.quantile,
        baseline_ns: shift.a_ns,
        level_ns: shift.b_ns,
        ratio: shift.ratio,
        low: shift.low,
        high: shift.high,
        thin: shift.thin,
    }
}

/// The quantiles of all trials together. Blocks alone could say how sure they are.
fn without_band(a: &Blocks, b: &Blocks) -> Vec<ShiftPoint> {
    let table = |blocks: &Blocks| {
        let mut whole = Histogram::new();
        blocks.values().for_each(|h| whole.add(h));
        quantile_table(&whole, &CURVE_QUANTILES)
    };
    let (a, b) = (table(a), table(b));
    a.iter()
        .zip(&b)
        .map(|(a, b)| ShiftPoint {
            quantile: a.quantile,
            baseline_ns: a.value_ns,
            level_ns: b.value_ns,
            ratio: b.value_ns.max(1.0) / a.value_ns.max(1.0),
            low: None,
            high: None,
            thin: a.thin || b.thin,
        })
        .collect()
}
