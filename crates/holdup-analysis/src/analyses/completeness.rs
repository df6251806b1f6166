//! Whether the run came to its end, and what was not measured.

use super::{Context, note};
use crate::words;
use holdup_model::bundle::Ending;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Availability, Finding, Measured, Meta};
use std::collections::{BTreeMap, BTreeSet};

pub static META: Meta = Meta {
    id: "completeness",
    summary: "whether blocks are missing, and what was not measured and why",
    docs: "How the run ended, how many of the planned blocks were run, which collectors could not work here, \
           which metrics and evidence are absent, and what was lost on the way. A number that was not measured \
           is missing, not zero.",
    references: &["docs/principles.md"],
};

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = vec![ending(context)];
    findings.extend(not_measured(context));
    findings.extend(losses(context));
    findings
}

fn ending(context: &Context<'_>) -> Finding {
    let bundle = context.bundle();
    let planned: BTreeSet<(u32, u32)> = bundle.schedule.trials.iter().map(|t| (t.session, t.block)).collect();
    let done: BTreeSet<(u32, u32, u32)> =
        bundle.trials.iter().filter(|t| t.is_done()).map(|t| (t.session, t.block, t.arm)).collect();
    let missing = bundle.schedule.trials.iter().filter(|t| !done.contains(&(t.session, t.block, t.arm))).count();
    let how = match &bundle.ending {
        Some(Ending::Complete) => match bundle.subject_end() {
            Some(end) => format!("The record came to its end, because {end}"),
            None => "The run came to its end".to_owned(),
        },
        Some(Ending::Decided) => return decided(context, planned.len(), &done),
        Some(Ending::Budget) => "The run ended when its time budget was used up".to_owned(),
        Some(Ending::Interrupted) => "The run was interrupted".to_owned(),
        Some(Ending::Failed { reason }) => format!("The run failed: {reason}"),
        None => "The run never ended properly: it crashed, or it still runs".to_owned(),
    };
    let blocks = format!("{} of {} planned blocks have trials that count", context.index.blocks_run(), planned.len());
    let gap = if missing > 0 {
        format!(", {} of {} planned trials are missing", missing, bundle.schedule.trials.len())
    } else {
        String::new()
    };
    let whole = missing == 0 && bundle.ending == Some(Ending::Complete);
    let verdict = if whole { FindingVerdict::Refuted } else { FindingVerdict::Supported };
    note(&META, verdict, format!("{how}; {blocks}{gap}."))
}

/// A run that ended early on purpose: what is missing is missing from the blocks that it ran.
fn decided(context: &Context<'_>, planned_blocks: usize, done: &BTreeSet<(u32, u32, u32)>) -> Finding {
    let bundle = context.bundle();
    let run: BTreeSet<(u32, u32)> = bundle.trials.iter().map(|t| (t.session, t.block)).collect();
    let of_run = bundle.schedule.trials.iter().filter(|t| run.contains(&(t.session, t.block)));
    let missing = of_run.filter(|t| !done.contains(&(t.session, t.block, t.arm))).count();
    let blocks = context.index.blocks_run();
    let sentence =
        format!("The run ended when every headline was decided, after {blocks} of at most {planned_blocks} blocks");
    if missing == 0 {
        return note(&META, FindingVerdict::Refuted, format!("{sentence}."));
    }
    let gap = format!("{sentence}; {} of them did not count.", words::count(missing, "trial"));
    note(&META, FindingVerdict::Supported, gap)
}

/// What was not measured, with the reasons.
fn not_measured(context: &Context<'_>) -> Option<Finding> {
    let bundle = context.bundle();
    let mut details = Vec::new();
    for state in &bundle.collectors {
        match &state.availability {
            Availability::Ready => {}
            Availability::Degraded { reason } => {
                details.push(format!("Collector {}: in part only, {reason}.", state.id));
            }
            Availability::Unavailable { reason, remedy } => {
                let remedy = remedy.as_ref().map(|r| format!(" (remedy: {r})")).unwrap_or_default();
                details.push(format!("Collector {}: {reason}{remedy}.", state.id));
            }
        }
    }
    let mut metrics: BTreeMap<(&str, &str), Vec<u32>> = BTreeMap::new();
    let mut items: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for trial in bundle.trials.iter().filter(|t| t.is_done()) {
        for m in &trial.measurements {
            if let Measured::Absent(why) = &m.value {
                metrics.entry((&m.metric, why)).or_default().push(trial.seq);
            }
        }
        for collected in &trial.evidence {
            for item in &collected.items {
                if let Measured::Absent(why) = &item.value {
                    items.entry((&collected.collector, why)).or_default().insert(&item.name);
                }
            }
        }
    }
    details.extend(absent_metrics(&metrics));
    for ((collector, why), names) in &items {
        let names: Vec<&str> = names.iter().copied().collect();
        details.push(format!("Evidence {} of {collector}: {why}.", words::list(&names)));
    }
    if details.is_empty() {
        return None;
    }
    let sentence = format!(
        "{} not measured, or only in part.",
        match details.len() {
            1 => "1 thing was".to_owned(),
            n => format!("{n} things were"),
        }
    );
    Some(Finding { details, ..note(&META, FindingVerdict::Supported, sentence) })
}

/// Absent metrics: those with the same reason in as many trials in one line, and one reason of many as an example.
fn absent_metrics(metrics: &BTreeMap<(&str, &str), Vec<u32>>) -> Vec<String> {
    /// Of several reasons for a metric one is given: they differ in numbers only.
    const REASONS: usize = 2;
    let mut of_metric: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for ((metric, why), seqs) in metrics {
        of_metric.entry(metric).or_default().push((why, seqs.len()));
    }
    let mut together: BTreeMap<(String, usize), Vec<&str>> = BTreeMap::new();
    for (metric, reasons) in &of_metric {
        if reasons.len() > REASONS {
            let trials = reasons.iter().map(|(_, n)| n).sum();
            let example = reasons.first().map_or("", |(why, _)| why);
            together.entry((format!("for example: {example}"), trials)).or_default().push(metric);
        } else {
            for (why, n) in reasons {
                together.entry(((*why).to_owned(), *n)).or_default().push(metric);
            }
        }
    }
    let mut lines: Vec<(&str, String)> = Vec::new();
    for ((why, trials), metrics) in &together {
        let noun = if metrics.len() == 1 { "Metric" } else { "Metrics" };
        let line = format!("{noun} {} in {}: {why}.", words::list(metrics), words::count(*trials, "trial"));
        lines.push((metrics.first().copied().unwrap_or_default(), line));
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

/// What collectors lost, and latencies beyond the histogram.
fn losses(context: &Context<'_>) -> Option<Finding> {
    let mut lost: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut clipped: BTreeMap<&str, u64> = BTreeMap::new();
    let mut seqs = BTreeSet::new();
    for trial in context.bundle().trials.iter().filter(|t| t.is_done()) {
        for collected in trial.evidence.iter().filter(|c| c.coverage.lost > 0) {
            let sum = lost.entry(&collected.collector).or_default();
            *sum = (sum.0.saturating_add(collected.coverage.lost), sum.1.saturating_add(collected.coverage.seen));
            seqs.insert(trial.seq);
        }
        for h in trial.histograms.iter().filter(|h| h.histogram.clipped() > 0) {
            *clipped.entry(&h.name).or_default() += h.histogram.clipped();
            seqs.insert(trial.seq);
        }
    }
    if seqs.is_empty() {
        return None;
    }
    let mut details: Vec<String> = lost
        .iter()
        .map(|(id, (lost, seen))| {
            format!("Collector {id} lost {} and saw {}.", words::integer(*lost), words::integer(*seen))
        })
        .collect();
    details.extend(
        clipped.iter().map(|(name, n)| {
            format!("Longer than an hour, and counted as one hour: {} of {name}.", words::integer(*n))
        }),
    );
    let sentence = format!("Something was lost in {}.", words::count(seqs.len(), "trial"));
    Some(Finding { details, trials: seqs.into_iter().collect(), ..note(&META, FindingVerdict::Supported, sentence) })
}
