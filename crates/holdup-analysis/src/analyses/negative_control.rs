//! Workloads that must not move.

use super::{Context, effect, note};
use crate::words;
use holdup_model::outcome::{Contrast, FindingVerdict};
use holdup_model::{Comparison, Finding, Meta, Verdict};

pub static META: Meta = Meta {
    id: "negative-control",
    summary: "whether a workload moved that must not move",
    docs: "A plan can name a workload as negative control: the factors must not change it. When one does, \
           something else than the mechanism under study differs between the arms, and the verdicts on the \
           other workloads are suspect.",
    references: &[],
};

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let plan = &context.bundle().plan;
    let is_control = |c: &Comparison| plan.workload(&c.workload).is_some_and(|w| w.negative_control);
    let judged = context
        .comparisons
        .iter()
        .filter(|c| c.primary && c.pooled && matches!(c.contrast, Contrast::Factor { .. }) && is_control(c));
    judged.map(finding).collect()
}

fn finding(c: &Comparison) -> Finding {
    let what = format!("{} ({})", c.workload, effect::subject(&c.contrast));
    let (verdict, sentence) = match (&c.ratio, &c.verdict) {
        (Some(ratio), Verdict::Different) => (
            FindingVerdict::Supported,
            format!(
                "The negative control moved: {} of {what} {}. Something else differs between the arms, so the verdicts \
                 on this factor are suspect.",
                words::metric_name(&c.metric),
                words::ratio(ratio)
            ),
        ),
        (Some(ratio), Verdict::Equivalent) => (
            FindingVerdict::Refuted,
            format!(
                "The negative control stayed: {} of {what} {}, within ±{}.",
                words::metric_name(&c.metric),
                words::ratio(ratio),
                words::percent(c.margin)
            ),
        ),
        (Some(ratio), Verdict::Undecided { reason, .. }) => (
            FindingVerdict::Undecided,
            format!(
                "Whether the negative control moved is undecided: {} of {what} {} ({reason}).",
                words::metric_name(&c.metric),
                words::ratio(ratio)
            ),
        ),
        (None, v) => {
            let why = if let Verdict::Undecided { reason, .. } = v { reason.as_str() } else { "it has no interval" };
            (FindingVerdict::Skipped, format!("The negative control {what} could not be judged: {why}."))
        }
    };
    let trials = [&c.baseline, &c.level].into_iter().flatten().flat_map(|s| s.trials.clone()).collect();
    Finding { trials, ..note(&META, verdict, sentence) }
}
