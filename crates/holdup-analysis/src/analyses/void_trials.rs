//! Trials that do not count, and why.

use super::{Context, note};
use crate::words;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Finding, Meta, TrialStatus};
use std::collections::BTreeMap;

pub static META: Meta = Meta {
    id: "void-trials",
    summary: "trials that do not count, and why",
    docs: "A trial that failed, or in which a steady fact of the environment moved, is void: it is kept with its \
           reason and no number of it is used. When voids gather in one arm, what is left of that arm is a \
           selection, and its numbers flatter it.",
    references: &[],
};

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let trials = &context.bundle().trials;
    let mut reasons: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut arms: BTreeMap<u32, usize> = BTreeMap::new();
    for trial in trials {
        if let TrialStatus::Void { reason } = &trial.status {
            reasons.entry(reason).or_default().push(trial.seq);
            *arms.entry(trial.arm).or_default() += 1;
        }
    }
    let void: usize = arms.values().sum();
    if trials.is_empty() {
        return vec![note(&META, FindingVerdict::Skipped, "No trial was run.".to_owned())];
    }
    if void == 0 {
        let sentence = format!("No trial is void: {} in all.", words::count(trials.len(), "trial"));
        return vec![note(&META, FindingVerdict::Refuted, sentence)];
    }
    let mut seqs: Vec<u32> = reasons.values().flatten().copied().collect();
    seqs.sort_unstable();
    let sentence = format!(
        "{void} of {} {} void and not counted ({}).",
        words::count(trials.len(), "trial"),
        if void == 1 { "is" } else { "are" },
        words::trials(&seqs)
    );
    let mut sorted: Vec<(&str, Vec<u32>)> = reasons.into_iter().collect();
    sorted.sort_by_key(|(_, seqs)| std::cmp::Reverse(seqs.len()));
    let mut details: Vec<String> = sorted
        .iter()
        .take(10)
        .map(|(reason, seqs)| format!("{}: {reason} ({}).", words::count(seqs.len(), "trial"), words::trials(seqs)))
        .collect();
    if let Some((arm, n)) = arms.iter().max_by_key(|(_, n)| **n)
        && *n >= 3
        && *n * 2 > void
        && arms.len() < context.index.arms().count()
    {
        let label = context.index.arm(*arm).map_or_else(|| format!("arm {arm}"), |a| a.label.clone());
        details.push(format!("{n} of them are of {label}: what is left of it may be a selection."));
    }
    vec![Finding { details, trials: seqs, ..note(&META, FindingVerdict::Supported, sentence) }]
}
