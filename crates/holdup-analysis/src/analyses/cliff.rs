//! Whether throughput or latency breaks down at some number of clients.

use super::{Context, note};
use crate::sweeps::{self, Curve};
use crate::words;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Direction, Finding, Meta, Metric};
use holdup_stats::scaling::{CliffKind, CliffPoint, find_cliff};

pub static META: Meta = Meta {
    id: "cliff",
    summary: "whether results break down abruptly at some number of clients",
    docs: "For each curve over a number of clients, threads or processes with at least six values: is there a place where \
           results get abruptly worse than any smooth scaling law has them? A drop between two neighbouring loads or a bend of \
           the slope, with an interval for its place; the p value comes from simulated smooth curves with the noise of this \
           one. Latencies are looked at as load by latency, which behaves as throughput does. \"No cliff\" is an answer.",
    references: &["docs/statistics.md"],
};

/// With fewer loads a bend of a smooth curve cannot be distinguished from a break.
const LOADS: usize = 6;

/// The seed of the simulated curves: fixed, so that a bundle always gives the same answer.
const SEED: u64 = 1;

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let curves = sweeps::curves(context.index, LOADS);
    let metrics = |curve: &Curve<'_>| -> Vec<Metric> {
        let all = context.index.metrics(curve.workload);
        let tail = |m: &Metric| m.id == "latency_p99_us";
        all.into_iter().filter(|(m, primary)| *primary || tail(m)).map(|(m, _)| m).collect()
    };
    curves.iter().flat_map(|curve| metrics(curve).into_iter().map(move |m| finding(context, curve, &m))).collect()
}

fn finding(context: &Context<'_>, curve: &Curve<'_>, metric: &Metric) -> Finding {
    let results = curve.results(context.index, &metric.id);
    let falls = metric.better == Direction::Lower;
    let points: Vec<CliffPoint> = results
        .iter()
        .map(|r| CliffPoint { load: r.load, value: if falls { r.load / r.value } else { r.value }, block: r.block })
        .collect();
    let trials = results.iter().map(|r| r.seq).collect();
    let (subject, name, axis) = (curve.subject(), words::metric_name(metric), &curve.axis.name);
    let found = match find_cliff(&points, SEED) {
        Ok(found) => found,
        Err(no) => {
            let sentence = format!("Whether {name} of {subject} breaks down was not looked for: {}.", no.reason);
            return Finding { trials, ..note(&META, FindingVerdict::Skipped, sentence) };
        }
    };
    let p = words::p_value(found.p);
    let Some(cliff) = &found.cliff else {
        let sentence = format!("No cliff: {name} of {subject} over {axis} is as smooth as a scaling law has it ({p}).");
        return Finding {
            details: vec![format!("{}.", words::capital(&found.reason))],
            trials,
            ..note(&META, FindingVerdict::Refuted, sentence)
        };
    };
    let what = match cliff.kind {
        CliffKind::Drop => "drops",
        CliffKind::Bend => "bends down",
    };
    let low = cliff.loss.low.map_or_else(|| "?".to_owned(), words::percent);
    let high = cliff.loss.high.map_or_else(|| "?".to_owned(), words::percent);
    let worse = if falls { format!("{name} is worse than") } else { format!("{name} falls short of") };
    let sentence = format!(
        "A cliff: {} of {subject} {what} at {axis}={} (95 % interval {} to {}); {worse} the smooth curve by {} ({low} to \
         {high}) ({p}).",
        if falls { format!("load by {name}") } else { name.clone() },
        words::number(cliff.load),
        words::number(cliff.low),
        words::number(cliff.high),
        words::percent(cliff.loss.value),
    );
    Finding { trials, headline: true, ..note(&META, FindingVerdict::Supported, sentence) }
}
