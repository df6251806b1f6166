//! What moved in the environment, and what is not known of it.

use super::{Context, note};
use crate::words;
use holdup_model::guest::is_chosen_at_boot;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{EnvironmentReading, Finding, Meta};
use std::collections::{BTreeMap, BTreeSet};

pub static META: Meta = Meta {
    id: "environment",
    summary: "what moved in the environment, and what is not known",
    docs: "Facts about the host are read before and after each trial and at the begin of each session. A steady \
           fact that moved makes its trial void; others are named here. Boots of guests with different kernels or command lines differ on purpose and are not \
           held against each other.",
    references: &["docs/principles.md"],
};

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
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

/// Facts with another value at each boot of a guest.
const OF_A_BOOT: [&str; 2] = ["kernel.boot_id", "guest.boot_s"];

/// Facts that differ from one session to another, or between boots of a guest that were to be alike: those with the
/// same levels of everything that is chosen at boot. What differs between the others does so on purpose.
fn between_sessions(context: &Context<'_>) -> Option<Finding> {
    let is_guest = context.bundle().plan.guest.is_some();
    let mut values: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for EnvironmentReading { boot, facts, .. } in &context.bundle().environment {
        let chosen = chosen_at_boot(context, *boot);
        for fact in facts.iter().filter(|f| !is_guest || !OF_A_BOOT.contains(&f.key.as_str())) {
            if let Some(value) = &fact.value {
                let seen = values.entry((chosen.clone(), &fact.key)).or_default();
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
    let names: BTreeSet<&str> = values.keys().map(|(_, key)| *key).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let between = if is_guest { "boots that were to be alike" } else { "sessions" };
    let sentence = format!("The environment differs between {between}: {}.", words::list(&names));
    let details = values
        .iter()
        .map(|((chosen, key), seen)| {
            let of = if chosen.is_empty() { String::new() } else { format!(" ({chosen})") };
            format!("{key}{of}: {}.", seen.join(" → "))
        })
        .collect();
    Some(Finding { details, ..note(&META, FindingVerdict::Supported, sentence) })
}

/// What was chosen at a boot: the levels that all its arms share. Empty where nothing is.
fn chosen_at_boot(context: &Context<'_>, boot: u32) -> String {
    let schedule = &context.bundle().schedule;
    let arm = schedule.trials.iter().find(|t| t.boot == boot).and_then(|t| context.index.arm(t.arm));
    let levels = arm.into_iter().flat_map(|arm| &arm.factors).filter(|(name, _)| is_chosen_at_boot(name));
    let levels: Vec<String> = levels.map(|(name, level)| format!("{name}={}", level.label)).collect();
    levels.join(", ")
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
