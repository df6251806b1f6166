//! What law throughput follows over the number of clients, and where it peaks.

use super::{Context, note};
use crate::sweeps::{self, Curve};
use crate::words;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Finding, Meta};
use holdup_stats::scaling::{Bounds, Comparison, LoadPoint, Model, Peak, ScalingFit, compare_models};
use std::collections::BTreeMap;

pub static META: Meta = Meta {
    id: "scaling",
    summary: "which scaling law throughput follows, and where it peaks",
    docs: "For each curve of throughput over a number of clients, threads or processes with at least four values: the \
           Universal Scalability Law, Amdahl's law and the machine repairman are fitted, weighted so that equal percentages \
           count equally. Coefficients, peak and its place have intervals; a lack-of-fit test says when no law fits; how far \
           the laws disagree at twice the largest load says what an extrapolation is worth. Supported means that the curve \
           peaks or saturates within what was measured.",
    references: &["docs/statistics.md"],
};

/// A curve with fewer loads is no curve: the law has three coefficients.
const LOADS: usize = 4;

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    sweeps::curves(context.index, LOADS).iter().filter_map(|curve| finding(context, curve)).collect()
}

fn finding(context: &Context<'_>, curve: &Curve<'_>) -> Option<Finding> {
    let metric = sweeps::throughput(context.index, curve.workload)?;
    let results = curve.results(context.index, &metric.id);
    let mut means: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for r in &results {
        let sum = means.entry(r.load.to_bits()).or_default();
        *sum = (sum.0 + r.value, sum.1 + 1.0);
    }
    let points: Vec<LoadPoint> = results
        .iter()
        .map(|r| {
            let (sum, n) = means[&r.load.to_bits()];
            LoadPoint { load: r.load, throughput: r.value, weight: (n / sum).powi(2) }
        })
        .collect();
    let trials = results.iter().map(|r| r.seq).collect();
    let subject = curve.subject();
    let found = match compare_models(&points) {
        Ok(found) => found,
        Err(no) => {
            let sentence = format!("No scaling law was fitted to {subject}: {}.", no.reason);
            return Some(Finding { trials, ..note(&META, FindingVerdict::Skipped, sentence) });
        }
    };
    let axis = &curve.axis.name;
    let Some(best) = found.best.as_ref().and_then(|(model, _)| found.fit(*model)).or_else(|| found.fit(Model::Usl))
    else {
        let sentence = format!("No scaling law was fitted to {subject}: none of them could be.");
        return Some(Finding { trials, ..note(&META, FindingVerdict::Skipped, sentence) });
    };
    let all_rejected = found.fits.iter().all(|(_, fit)| fit.as_ref().map_or(true, |fit| fit.test.rejects()));
    let (verdict, peak) = peak(best, axis);
    let sentence = if all_rejected {
        format!(
            "Throughput of {subject} over {axis} follows none of the scaling laws (lack of fit, p below 5 % for each); the \
             nearest, {}, has {peak}.",
            article(best.model)
        )
    } else {
        format!("Throughput of {subject} over {axis}: {peak}, by {}.", article(best.model))
    };
    let verdict = if all_rejected { FindingVerdict::Undecided } else { verdict };
    Some(Finding { details: details(&found, axis), trials, ..note(&META, verdict, sentence) })
}

fn article(model: Model) -> String {
    match model {
        Model::Usl | Model::Repairman => format!("the {}", model.name()),
        Model::Amdahl => model.name().to_owned(),
    }
}

fn interval(bounds: &Bounds, show: fn(f64) -> String) -> String {
    let end = |end: Option<f64>, open: &str| end.map_or_else(|| open.to_owned(), show);
    format!(
        "{} (95 % interval {} to {})",
        show(bounds.value),
        end(bounds.low, "unbounded"),
        end(bounds.high, "unbounded")
    )
}

fn peak(fit: &ScalingFit, axis: &str) -> (FindingVerdict, String) {
    match &fit.peak {
        Peak::At { load, throughput, beyond_loads } => {
            let place = interval(load, words::number);
            let height = words::number(throughput.value);
            if *beyond_loads {
                let text = format!(
                    "still rising at the largest load; the peak would be {height} per second at {axis}={place}"
                );
                (FindingVerdict::Refuted, text)
            } else {
                (
                    FindingVerdict::Supported,
                    format!("peaks with {height} per second at {axis}={place} and falls beyond"),
                )
            }
        }
        Peak::None { reason, not_before } => {
            let bound = not_before.map(|l| format!(", none before {axis}={}", words::number(l))).unwrap_or_default();
            (FindingVerdict::Refuted, format!("no peak ({reason}{bound})"))
        }
    }
}

fn details(found: &Comparison, axis: &str) -> Vec<String> {
    let mut details = Vec::new();
    for (model, fit) in &found.fits {
        match fit {
            Ok(fit) => {
                let parts: Vec<String> = fit
                    .coefficients
                    .iter()
                    .map(|c| {
                        format!(
                            "{} {} ({} to {})",
                            c.name,
                            words::number(c.value),
                            words::number(c.low),
                            words::number(c.high)
                        )
                    })
                    .collect();
                let limit = fit
                    .limit
                    .as_ref()
                    .map(|l| format!("; ceiling {} per second", words::number(l.value)))
                    .unwrap_or_default();
                let test = match fit.test.p() {
                    Some(p) if fit.test.rejects() => format!("; does not fit (p {p:.3})"),
                    Some(p) => format!("; fits (p {p:.2})"),
                    None => "; the fit could not be tested".to_owned(),
                };
                details.push(format!("{}: {}{limit}{test}.", words::capital(model.name()), words::list(&parts)));
            }
            Err(no) => details.push(format!("{}: {}.", words::capital(model.name()), no.reason)),
        }
    }
    if let Some(d) = &found.at_twice_largest_load {
        details.push(format!(
            "At {axis}={} (twice the largest measured) the laws differ by {}: {} per second by {}, {} by {}.",
            words::number(d.load),
            words::percent(d.relative),
            words::number(d.low),
            article(d.lowest),
            words::number(d.high),
            article(d.highest)
        ));
    }
    details
}
