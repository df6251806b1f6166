//! What A/A pairs say about this run.

use super::{Context, note};
use crate::words;
use holdup_model::outcome::{Contrast, FindingVerdict};
use holdup_model::{Finding, Meta, Replica, Verdict};

pub static META: Meta = Meta {
    id: "noise-floor",
    summary: "whether the baseline differs from itself, and by how much it could",
    docs: "The baseline runs twice in every block (A/A). The half-width of the interval of that ratio is the \
           smallest effect that this host could show in this run. When the baseline differs from itself, noise \
           is not random from block to block, and effects of that size mean nothing; by chance alone that \
           happens in 1 of 20 runs.",
    references: &["docs/statistics.md"],
};

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let aa = context.comparisons.iter().filter(|c| c.contrast == Contrast::Same && c.primary && c.pooled);
    let findings: Vec<Finding> = aa
        .map(|c| {
            let name = words::metric_name(&c.metric);
            let (verdict, sentence) = match (&c.ratio, c.noise_floor) {
                (Some(ratio), Some(floor)) if c.verdict == Verdict::Different => (
                    FindingVerdict::Supported,
                    format!(
                        "The baseline differs from itself: {name} of {} {}. Effects below {} mean nothing in \
                         this run (1 run in 20 shows this by chance).",
                        c.workload,
                        words::ratio(ratio),
                        words::percent(floor)
                    ),
                ),
                (Some(ratio), Some(floor)) => (
                    FindingVerdict::Refuted,
                    format!(
                        "The baseline against itself: {name} of {} {}; effects below {} cannot be seen in this run.",
                        c.workload,
                        words::ratio(ratio),
                        words::percent(floor)
                    ),
                ),
                _ => (
                    FindingVerdict::Skipped,
                    format!("The noise floor of {} is not known: {}.", c.workload, why(&c.verdict)),
                ),
            };
            let sides = [&c.baseline, &c.level];
            let trials = if c.baseline.is_some() {
                sides.into_iter().flatten().flat_map(|s| s.trials.clone()).collect()
            } else {
                let arms = context.index.arms().filter(|a| a.workload == c.workload);
                let same = arms.filter(|a| a.replica == Some(Replica::Same));
                same.flat_map(|a| context.index.done(a.id)).map(|t| t.seq).collect()
            };
            Finding { trials, ..note(&META, verdict, sentence) }
        })
        .collect();
    if findings.is_empty() {
        let sentence = "The noise floor is not known: the plan has no A/A pair.".to_owned();
        return vec![note(&META, FindingVerdict::Skipped, sentence)];
    }
    findings
}

fn why(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Undecided { reason, .. } => reason,
        _ => "its interval is wider than numbers can hold",
    }
}
