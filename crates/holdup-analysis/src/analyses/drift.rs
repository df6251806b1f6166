//! Whether the primary metric moved while the run went on.

use super::{Context, note};
use crate::words;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Finding, Meta, Metric};
use holdup_stats::{DriftPoint, drift};

pub static META: Meta = Meta {
    id: "drift",
    summary: "whether results moved with the order of the run",
    docs: "The mean of each arm is taken out; what is left should not depend on when a trial ran. A rank \
           correlation with the order (p below 1 %) names a drift, a lag-1 autocorrelation (p below 1 %) names \
           noise that comes in spells. Comparisons are paired by block, so a slow drift mostly cancels in the \
           ratios; means and spreads of single arms carry it in full.",
    references: &["docs/statistics.md"],
};

/// A note is made below this p: several workloads are looked at, and a note that cries wolf is not read.
const P: f64 = 0.01;

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let workloads = &context.bundle().plan.workloads;
    workloads
        .iter()
        .map(|w| match context.index.metrics(&w.name).into_iter().next() {
            Some((metric, _)) => look(context, &w.name, &metric),
            None => {
                let sentence = format!("Drift of {} was not looked for: it has no metric.", w.name);
                note(&META, FindingVerdict::Skipped, sentence)
            }
        })
        .collect()
}

fn look(context: &Context<'_>, workload: &str, metric: &Metric) -> Finding {
    let mut points: Vec<(u32, DriftPoint)> = Vec::new();
    for trial in context.bundle().trials.iter().filter(|t| t.is_done()) {
        if context.index.arm(trial.arm).is_some_and(|a| a.workload == workload)
            && let Some(value) = trial.metric(&metric.id)
        {
            points.push((trial.seq, DriftPoint { arm: trial.arm, value }));
        }
    }
    points.sort_by_key(|(seq, _)| *seq);
    let trials: Vec<u32> = points.iter().map(|(seq, _)| *seq).collect();
    let values: Vec<DriftPoint> = points.iter().map(|(_, p)| *p).collect();
    let name = words::metric_name(metric);
    let found = match drift(&values) {
        Ok(found) => found,
        Err(no) => {
            let sentence = format!("Drift of {workload} could not be looked for: {}.", no.reason);
            return Finding { trials, ..note(&META, FindingVerdict::Skipped, sentence) };
        }
    };
    let way = if found.change < 0.0 { "fell" } else { "rose" };
    let (verdict, sentence, details) = if found.p < P {
        (
            FindingVerdict::Supported,
            format!(
                "Results drifted: {name} of {workload} {way} by {} from the first to the last trial, in all arms \
                 (rank correlation {:.2}, {}).",
                words::percent(found.change),
                found.rank_correlation,
                words::p_value(found.p)
            ),
            vec![
                "Ratios are paired by block, so most of a slow drift cancels in them; means of single arms carry it."
                    .to_owned(),
            ],
        )
    } else if found.autocorrelation_p < P && found.autocorrelation > 0.0 {
        (
            FindingVerdict::Supported,
            format!(
                "Noise comes in spells: {name} of {workload} resembles the trial before it (autocorrelation {:.2}, {}), \
                 so something beside the arms moved it.",
                found.autocorrelation,
                words::p_value(found.autocorrelation_p)
            ),
            Vec::new(),
        )
    } else {
        let sentence = format!(
            "No drift: {name} of {workload} did not move with the order of its {} trials (rank correlation {:.2}, {}).",
            found.n,
            found.rank_correlation,
            words::p_value(found.p)
        );
        (FindingVerdict::Refuted, sentence, Vec::new())
    };
    Finding { details, trials, ..note(&META, verdict, sentence) }
}
