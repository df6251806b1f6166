//! What looking cost.

use super::{Context, effect, note};
use crate::words;
use holdup_model::outcome::{Contrast, FindingVerdict};
use holdup_model::{Finding, Meta, Verdict};
use std::collections::BTreeMap;

pub static META: Meta = Meta {
    id: "observer-cost",
    summary: "what the collectors cost, by their own count and by experiment",
    docs: "Each collector counts the CPU time of its code inside the window. That count misses what it does \
           to caches and to the kernel's own paths; only an arm without collectors (observer arm) shows the whole \
           cost. More than 1 % of one CPU, or an observer arm that differs, is named.",
    references: &["docs/principles.md"],
};

/// Own CPU time beyond this share of one CPU is named.
const NOTABLE: f64 = 0.01;

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let pair = context.comparisons.iter().filter(|c| c.contrast == Contrast::Unobserved && c.primary && c.pooled);
    let mut findings: Vec<Finding> = vec![own_count(context)];
    for c in pair {
        let name = words::metric_name(&c.metric);
        let (verdict, sentence) = match (&c.ratio, &c.verdict) {
            (Some(ratio), v) => (
                match v {
                    Verdict::Different => FindingVerdict::Supported,
                    Verdict::Equivalent => FindingVerdict::Refuted,
                    Verdict::Undecided { .. } => FindingVerdict::Undecided,
                },
                format!(
                    "Without collectors {name} of {} is {}: {}.",
                    c.workload,
                    words::ratio(ratio),
                    effect::answer(c, effect::Unit::Block)
                ),
            ),
            (None, v) => {
                let why = if let Verdict::Undecided { reason, .. } = v { reason } else { "no interval" };
                (FindingVerdict::Skipped, format!("What collectors cost {} could not be measured: {why}.", c.workload))
            }
        };
        let trials = [&c.baseline, &c.level].into_iter().flatten().flat_map(|s| s.trials.clone()).collect();
        findings.push(Finding { trials, ..note(&META, verdict, sentence) });
    }
    findings
}

/// The collectors' CPU time by their own count, against the windows.
fn own_count(context: &Context<'_>) -> Finding {
    let mut each: BTreeMap<&str, u64> = BTreeMap::new();
    let mut windows_ns = 0_u64;
    for trial in context.bundle().trials.iter().filter(|t| t.is_done() && !t.evidence.is_empty()) {
        let Some(window) = trial.window else { continue };
        windows_ns = windows_ns.saturating_add(window.length_ns);
        for collected in &trial.evidence {
            let sum = each.entry(&collected.collector).or_default();
            *sum = sum.saturating_add(collected.cost.cpu_ns);
        }
    }
    if windows_ns == 0 {
        return note(&META, FindingVerdict::Skipped, "No collector ran in a trial that counts.".to_owned());
    }
    let share = |ns: u64| ns as f64 / windows_ns as f64;
    let whole = share(each.values().fold(0_u64, |sum, ns| sum.saturating_add(*ns)));
    let verdict = if whole > NOTABLE { FindingVerdict::Supported } else { FindingVerdict::Refuted };
    let most =
        each.iter().max_by_key(|(_, ns)| **ns).map(|(id, ns)| format!("; most: {id}, {}", words::percent(share(*ns))));
    let sentence = format!(
        "By their own count, {} used {} of one CPU inside the windows{}.",
        words::count(each.len(), "collector"),
        words::percent(whole),
        most.unwrap_or_default()
    );
    note(&META, verdict, sentence)
}
