//! What results of other tools cannot say, and what is wrong with how they were reckoned.

use super::{Context, note};
use crate::{arms, words};
use holdup_model::outcome::{ArmSummary, FindingVerdict};
use holdup_model::{Finding, Meta};

pub static META: Meta = Meta {
    id: "imported",
    summary: "what results of other tools cannot say",
    docs: "Results that were imported have no order, no environment and, often, no distribution. They are compared with Welch's t on the logs of \
           single results, and nothing is paired: a host that changed between two files is in the difference. The cautions of a tool's importer \
           stand here too.",
    references: &["docs/import.md"],
};

/// Arms that are named in a sentence.
const SHOWN: usize = 6;

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let bundle = context.bundle();
    let mut unknown = vec!["the order of the runs (what drifted between them is in the differences)".to_owned()];
    if bundle.environment.is_empty() {
        unknown.push("the host and its settings".to_owned());
    }
    if bundle.trials.iter().all(|trial| trial.histograms.is_empty()) {
        unknown.push("the distribution inside a run".to_owned());
    }
    let sentence = format!("Not known of imported results: {}.", words::list(&unknown));
    let mut findings: Vec<Finding> = Vec::new();
    if !context.comparisons.iter().any(|comparison| comparison.headline) {
        findings.extend(means(context));
    }
    findings.push(note(&META, FindingVerdict::Supported, sentence));
    findings.extend(bundle.log.iter().map(|(_, line)| note(&META, FindingVerdict::Supported, line.clone())));
    findings
}

/// The answer where nothing is compared: the primary metric of each arm.
fn means(context: &Context<'_>) -> Option<Finding> {
    let (_, metric) = context.bundle().metrics.first()?;
    let arms = arms::summaries(context.index);
    let of_arm = |summary: &ArmSummary| {
        let label = &context.index.arm(summary.arm)?.label;
        let mean = summary.metrics.iter().find(|m| m.metric == metric.id)?;
        let interval = mean
            .mean
            .as_ref()
            .map(|e| format!(" (95 % interval {} to {})", words::number(e.low), words::number(e.high)));
        let runs = words::count(summary.trials_done as usize, "run");
        Some(format!("{label} {}{} in {runs}", words::number(mean.value?), interval.unwrap_or_default()))
    };
    let mut shown: Vec<String> = arms.iter().filter_map(of_arm).collect();
    let all = shown.len();
    shown.truncate(SHOWN);
    if all > SHOWN {
        shown.push(format!("{} more", all - SHOWN));
    }
    let sentence = format!("{} ({}): {}.", words::metric_name(metric), metric.unit, words::list(&shown));
    (all > 0).then(|| Finding { headline: true, ..note(&META, FindingVerdict::Undecided, sentence) })
}
