//! New runs against the level of their series.

use crate::changes::{caution, history};
use crate::level::{self, LEAST_RUNS};
use crate::series::{Series, Split, series};
use crate::words;
use holdup_model::Direction;
use holdup_model::kept::{
    ChangedSeries, Gate, GateAnswer, GateCheck, GatePast, Kept, KeptHistory, KeptSeries, KeptValue, SeriesKey,
};

/// The chance that a gate refuses runs in which nothing changed is half of this: the interval has two ends.
const ALPHA: f64 = 0.05;

/// The newest runs of a series that the gate is tried on.
const MOST_REPLAYED: usize = 200;

/// Compares new runs of a plan with what the store knows: primary metrics only, arm by arm. `margin` takes the place of the plan's.
///
/// The new runs may be among the kept ones; they are left out there.
pub fn gate(new: &[Kept], kept: &KeptSeries, margin: Option<f64>) -> Gate {
    let known = without(kept, new);
    let known_series = series(&known, Split::default());
    let found = history(&known, Split::default());
    let new_series = series(&of_new(new), Split::default());
    let alpha = ALPHA / new_series.len().max(1) as f64;
    let mut checks: Vec<GateCheck> = new_series
        .iter()
        .map(|new| {
            let old = known_series.iter().find(|s| s.key == new.key);
            check(new, old, margin, alpha, &found)
        })
        .collect();
    checks.sort_by(|a, b| (a.answer, &a.key.workload, &a.key.arm).cmp(&(b.answer, &b.key.workload, &b.key.arm)));
    let mut past = GatePast::default();
    for c in &checks {
        past.judged += c.past.judged;
        past.justified += c.past.justified;
        past.false_alarms += c.past.false_alarms;
        past.undecided += c.past.undecided;
    }
    let answer = checks.iter().map(|c| c.answer).min().unwrap_or(GateAnswer::Undecided);
    let runs: Vec<_> = new.iter().map(|k| k.run.clone()).collect();
    let plan = runs.first().map(|r| r.plan.clone()).unwrap_or_default();
    let sentence = words::gate_sentence(&plan, &checks, answer);
    Gate { caution: caution(&runs), plan, runs, answer, sentence, checks, past }
}

fn without(kept: &KeptSeries, new: &[Kept]) -> KeptSeries {
    let is_new = |run: usize| new.iter().any(|k| k.run.run_id == kept.runs[run].run_id);
    KeptSeries { runs: kept.runs.clone(), values: kept.values.iter().filter(|v| !is_new(v.run)).cloned().collect() }
}

/// New runs as a store would give them back: primary metrics of arms that are no replicas.
fn of_new(new: &[Kept]) -> KeptSeries {
    let mut all = KeptSeries::default();
    for (run, kept) in new.iter().enumerate() {
        all.runs.push(kept.run.clone());
        for arm in kept.arms.iter().filter(|arm| arm.replica.is_none()) {
            for metric in arm.metrics.iter().filter(|m| m.is_primary) {
                all.values.push(KeptValue {
                    run,
                    arm: arm.label.clone(),
                    workload: arm.workload.clone(),
                    design: arm.design.clone(),
                    value: metric.clone(),
                });
            }
        }
    }
    all
}

fn check(new: &Series, old: Option<&Series>, margin: Option<f64>, alpha: f64, found: &KeptHistory) -> GateCheck {
    let margin = margin.unwrap_or(new.margin);
    let known = match old {
        Some(old) => level::of(&old.kept),
        None => Err(no_series(&new.key, found)),
    };
    let values: Vec<_> = new.kept.iter().collect();
    let mut check = GateCheck {
        key: new.key.clone(),
        metric: new.metric.clone(),
        margin,
        value: crate::changes::level(&new.values()),
        level: None,
        runs: 0,
        ratio: None,
        run_cv: None,
        answer: GateAnswer::Undecided,
        reason: None,
        past: GatePast::default(),
    };
    match known {
        Ok(level) => {
            let judged = level::judge(&level, &values, new.metric.better, margin, alpha);
            check.value = judged.value;
            check.level = Some(level.mean);
            check.runs = level.runs;
            check.run_cv = Some(level.spread);
            check.ratio = judged.ratio;
            check.answer = judged.answer;
            check.reason = judged.reason;
        }
        Err(why) => check.reason = Some(why),
    }
    if let Some(old) = old {
        let changed = found.series.iter().find(|s| s.key == old.key);
        check.past = replay(old, changed, new.metric.better, margin, alpha);
    }
    check
}

/// Why there is no series: the nearest one that differs says it.
fn no_series(key: &SeriesKey, found: &KeptHistory) -> String {
    let same_arm = |k: &SeriesKey| k.workload == key.workload && k.arm == key.arm && k.metric == key.metric;
    let near: Vec<&SeriesKey> = found.series.iter().map(|s| &s.key).filter(|k| same_arm(k)).collect();
    let here = |k: &&&SeriesKey| k.host == key.host && k.target == key.target;
    if near.iter().any(|k| here(&k)) {
        return "kept runs of this arm have other parameters, settings or durations".to_owned();
    }
    let mut hosts: Vec<&str> = near.iter().filter_map(|k| k.host.as_deref()).collect();
    hosts.dedup();
    match (hosts.as_slice(), &key.host) {
        ([], _) => "no run with this arm is kept".to_owned(),
        (hosts, Some(host)) => format!("runs of this arm are kept of {}, none of {host}", hosts.join(", ")),
        (hosts, None) => {
            format!("runs of this arm are kept of {}, and the host of the new one is not known", hosts.join(", "))
        }
    }
}

/// What the gate would have said of each kept run, by those before it.
fn replay(series: &Series, found: Option<&ChangedSeries>, better: Direction, margin: f64, alpha: f64) -> GatePast {
    let mut past = GatePast::default();
    let n = series.kept.len();
    // A change in the newest runs cannot be seen yet.
    let end = n.saturating_sub(LEAST_RUNS);
    for at in LEAST_RUNS.max(end.saturating_sub(MOST_REPLAYED))..end {
        let Ok(level) = level::of(&series.kept[..at]) else { continue };
        past.judged += 1;
        match level::judge(&level, &[&series.kept[at]], better, margin, alpha).answer {
            GateAnswer::NoRegression => {}
            GateAnswer::Undecided => past.undecided += 1,
            GateAnswer::Regression if is_justified(found, at) => past.justified += 1,
            GateAnswer::Regression => past.false_alarms += 1,
        }
    }
    past
}

/// True if the history has a change for the worse that this run is the first of, or follows.
fn is_justified(found: Option<&ChangedSeries>, at: usize) -> bool {
    let changes = found.map(|f| f.changes.as_slice()).unwrap_or_default();
    let ends = changes.iter().skip(1).map(|next| next.at).chain(std::iter::once(usize::MAX));
    changes.iter().zip(ends).any(|(c, end)| c.is_worse == Some(true) && c.at_low <= at && at < end)
}
