//! What moved in the environment, and what is not known of it.

use super::{Analysis, Context, note};
use crate::words;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{EnvironmentReading, Finding, Meta};
use std::collections::{BTreeMap, BTreeSet};

/// See [`META`].
pub struct Environment;

/// What this analysis says about itself.
pub static META: Meta = Meta {
    id: "environment",
    summary: "what moved in the environment, and what is not known",
    docs: "Facts about the host are read before and after each trial and at the begin of each session. A steady \
           fact that moved makes its trial void; others are named here.",
    references: &["docs/principles.md"],
};

impl Analysis for Environment {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn run(&self, context: &Context<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.extend(moved(context));
        findings.extend(between_sessions(context));
        findings.extend(unknown(context));
        if findings.is_empty() {
            let known = context.bundle().environment.iter().any(|r| !r.facts.is_empty());
            let (verdict, sentence) = if known {
                (FindingVerdict::Refuted, "Nothing moved in the environment, and every fact asked for is known.")
            } else {
                (FindingVerdict::Skipped, "Nothing is known of the environment: the bundle holds no facts.")
            };
            findings.push(note(&META, verdict, sentence.to_owned()));
        }
        findings
    }
}

/// Facts that moved during trials.
fn moved(context: &Context<'_>) -> Option<Finding> {
    let mut keys: BTreeMap<&str, (Vec<u32>, String)> = BTreeMap::new();
    for trial in &context.bundle().trials {
        for after in &trial.environment_moved {
            let before = trial.environment_before.iter().find(|f| f.key == after.key);
            let show = |value: Option<&String>| value.map_or("not known", String::as_str).to_owned();
            let change = format!("{} → {}", show(before.and_then(|f| f.value.as_ref())), show(after.value.as_ref()));
            let entry = keys.entry(&after.key).or_insert_with(|| (Vec::new(), change));
            entry.0.push(trial.seq);
        }
    }
    if keys.is_empty() {
        return None;
    }
    let seqs: BTreeSet<u32> = keys.values().flat_map(|(seqs, _)| seqs.iter().copied()).collect();
    let seqs: Vec<u32> = seqs.into_iter().collect();
    let names: Vec<&str> = keys.keys().copied().collect();
    let sentence = format!(
        "The environment moved during {}: {} ({}).",
        words::count(seqs.len(), "trial"),
        words::list(&names),
        words::trials(&seqs)
    );
    let details = keys
        .iter()
        .map(|(key, (seqs, change))| format!("{key}: {change}, first in trial {}.", seqs.first().copied().unwrap_or(0)))
        .collect();
    Some(Finding { details, trials: seqs, ..note(&META, FindingVerdict::Supported, sentence) })
}

/// Facts that differ from one session to another.
fn between_sessions(context: &Context<'_>) -> Option<Finding> {
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for EnvironmentReading { facts, .. } in &context.bundle().environment {
        for fact in facts {
            if let Some(value) = &fact.value {
                let seen = values.entry(&fact.key).or_default();
                if !seen.contains(&value.as_str()) {
                    seen.push(value);
                }
            }
        }
    }
    values.retain(|_, seen| seen.len() > 1);
    if values.is_empty() {
        return None;
    }
    let names: Vec<&str> = values.keys().copied().collect();
    let sentence = format!("The environment differs between sessions: {}.", words::list(&names));
    let details = values.iter().map(|(key, seen)| format!("{key}: {}.", seen.join(" → "))).collect();
    Some(Finding { details, ..note(&META, FindingVerdict::Supported, sentence) })
}

/// Facts that could not be read, with the reasons.
fn unknown(context: &Context<'_>) -> Option<Finding> {
    let mut reasons: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let session = context.bundle().environment.iter().flat_map(|r| &r.facts);
    let trials = context.bundle().trials.iter().flat_map(|t| t.environment_before.iter().chain(&t.environment_moved));
    for fact in session.chain(trials).filter(|f| f.value.is_none()) {
        let why = fact.absent.as_deref().unwrap_or("no reason was given");
        reasons.entry(why).or_default().insert(&fact.key);
    }
    if reasons.is_empty() {
        return None;
    }
    let keys: BTreeSet<&str> = reasons.values().flatten().copied().collect();
    let sentence = format!(
        "{} of the environment {} not known.",
        words::count(keys.len(), "fact"),
        if keys.len() == 1 { "is" } else { "are" }
    );
    let details = reasons
        .iter()
        .map(|(why, keys)| format!("{}: {why}.", words::list(&keys.iter().copied().collect::<Vec<_>>())))
        .collect();
    Some(Finding { details, ..note(&META, FindingVerdict::Undecided, sentence) })
}
