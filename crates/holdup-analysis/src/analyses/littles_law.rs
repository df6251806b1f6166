//! Little's law of each trial of a closed loop.

use super::{Context, note};
use crate::words;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Arm, ClosedLoop, Finding, Meta, Think, Trial, Value};
use holdup_stats::{LITTLES_LAW_TOLERANCE, littles_law};

pub static META: Meta = Meta {
    id: "littles-law",
    summary: "whether requests in flight, throughput and latency disagree",
    docs: "In a closed loop, requests in flight = throughput × (mean latency + mean think time). Workloads declare their \
           closed loops and the parameters that open them (`rate`). A pgbench client has no think time, but it waits while \
           its pgbench thread serves others, which is measured. Where a workload does not measure the time between two \
           requests, throughput × latency must not exceed the number in flight. A trial that is more than 5 % off has a \
           wrong number: requests that were not logged, clients that did not run, or a wrong window.",
    references: &["J. D. C. Little, A Proof for the Queuing Formula L = λW, Operations Research 9(3), 1961"],
};

/// A trial that was checked.
struct Checked<'a> {
    trial: u32,
    arm: &'a Arm,
    law: holdup_stats::LittlesLaw,
    holds: bool,
}

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let mut checked: Vec<Checked<'_>> = Vec::new();
    let mut skipped: Vec<String> = Vec::new();
    for arm in context.index.arms() {
        let loops = context.bundle().plan.workload(&arm.workload).map(|w| w.semantics.closed_loops.as_slice());
        if loops.is_none_or(<[_]>::is_empty) {
            skipped.push(format!("{} declares no closed loop", arm.workload));
        }
        for closed in loops.unwrap_or_default() {
            match in_flight(context, arm, closed) {
                Ok(n) => checked.extend(context.index.done(arm.id).iter().filter_map(|t| check(t, arm, closed, n))),
                Err(why) => skipped.push(format!("{}: {why}", arm.workload)),
            }
        }
    }
    vec![if checked.is_empty() { not_checked(skipped) } else { judged(checked) }]
}

fn not_checked(mut why: Vec<String>) -> Finding {
    why.dedup();
    if why.is_empty() {
        why.push("no trial that counts has throughput and mean latency".to_owned());
    }
    note(&META, FindingVerdict::Skipped, format!("Little's law was not checked: {}.", why.join("; ")))
}

fn judged(mut checked: Vec<Checked<'_>>) -> Finding {
    checked.sort_by_key(|c| c.trial);
    let tolerance = words::percent(LITTLES_LAW_TOLERANCE);
    let wrong: Vec<&Checked<'_>> = checked.iter().filter(|c| !c.holds).collect();
    let all = words::count(checked.len(), "trial");
    if wrong.is_empty() {
        let sentence = format!("Little's law holds within {tolerance} in {all}.");
        let trials = checked.iter().map(|c| c.trial).collect();
        return Finding { trials, ..note(&META, FindingVerdict::Refuted, sentence) };
    }
    let trials: Vec<u32> = wrong.iter().map(|c| c.trial).collect();
    let sentence = format!(
        "Little's law is violated in {} of {all}: throughput × latency differs from the number in flight by more than \
         {tolerance} ({}). The numbers of these trials are suspect.",
        wrong.len(),
        words::trials(&trials)
    );
    let detail = |c: &&Checked<'_>| {
        let (n, found) = (words::number(c.law.expected), words::number(c.law.found));
        format!("Trial {} ({}): {n} in flight, throughput × latency is {found}.", c.trial, c.arm.label)
    };
    let details = wrong.iter().take(10).map(detail).collect();
    Finding { details, trials, ..note(&META, FindingVerdict::Supported, sentence) }
}

/// The number in flight of an arm.
fn in_flight(context: &Context<'_>, arm: &Arm, closed: &ClosedLoop) -> Result<f64, String> {
    let used = context.bundle().plan.workload(&arm.workload);
    let value = |name: &str| arm.axes.get(name).map(|l| &l.value).or_else(|| used?.parameters.get(name));
    for (name, expected) in &closed.closed_when {
        if let Some(found) = value(name).filter(|found| !is_equal(found, expected)) {
            return Err(format!("the loop is open ({name} = {found})"));
        }
    }
    let each = closed.in_flight.iter().map(|name| {
        value(name).and_then(Value::number).ok_or_else(|| format!("the parameter {name} is not in the bundle"))
    });
    each.product()
}

fn is_equal(a: &Value, b: &Value) -> bool {
    match (a.number(), b.number()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// A trial by the law; `None` where it did not measure throughput and latency.
fn check<'a>(trial: &Trial, arm: &'a Arm, closed: &ClosedLoop, in_flight: f64) -> Option<Checked<'a>> {
    let throughput = trial.metric(&closed.throughput)?;
    let latency_s = match trial.metric(&closed.latency) {
        Some(us) => us / 1e6,
        None => trial.histograms.iter().find(|h| h.name == closed.latency)?.histogram.mean_ns()? / 1e9,
    };
    let think_s = match &closed.think {
        Think::Measured(metric) => trial.metric(metric).unwrap_or(0.0) / 1e6,
        Think::Unmeasured => 0.0,
    };
    let law = littles_law(in_flight, throughput, latency_s, think_s).ok()?;
    let holds = law.holds || closed.think == Think::Unmeasured && law.deviation < 0.0;
    Some(Checked { trial: trial.seq, arm, law, holds })
}
