//! Whether the arms were what their labels say.

use super::{Context, note};
use crate::words;
use holdup_model::guest::KERNEL;
use holdup_model::outcome::FindingVerdict;
use holdup_model::trial::{HOLDFAST_HAD_NO_EFFECT, OF_HOLDFAST};
use holdup_model::{Arm, Fact, Finding, Level, Meta, PreemptModel, Trial};
use std::collections::{BTreeMap, BTreeSet};

pub static META: Meta = Meta {
    id: "treatment",
    summary: "whether kernel and preemption model were those that the arm asks for",
    docs: "A kernel may leave out what its command line asks for: 7.0 takes preempt=none for an unsupported mode, logs \
           it and boots with another model. So the facts of each trial are held against the levels of its arm: the \
           release against kernel=debian:VERSION, the model in force against preempt and boot.preempt. An arm that was \
           something else answers another question than the plan's. So is one whose program was to have holdfast's locks and took none \
           of them.",
    references: &["kernel/sched/core.c:setup_preempt_mode (v6.18)"],
};

/// What a level asks for and how a fact shows it.
struct Check {
    factor: &'static str,
    fact: &'static str,
    /// True if a value of the fact is what the level asks for; `None` where the level does not say.
    is_so: fn(&str, &str) -> Option<bool>,
}

static CHECKS: &[Check] = &[
    Check { factor: KERNEL, fact: "kernel.release", is_so: is_release },
    Check { factor: "preempt", fact: "kernel.preempt", is_so: is_model },
    Check { factor: "boot.preempt", fact: "kernel.preempt", is_so: is_model },
];

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    let mut wrong: BTreeMap<(u32, &str), Wrong> = BTreeMap::new();
    let (mut checked, mut unverified) = (BTreeSet::new(), BTreeSet::new());
    let mut shown = BTreeSet::new();
    for arm in context.index.arms() {
        for check in CHECKS {
            let Some(asked) = level(context, arm, check.factor) else { continue };
            // What is set while the kernel runs takes the place of what its command line said.
            if check.factor == "boot.preempt" && level(context, arm, "preempt").is_some() {
                continue;
            }
            for trial in context.index.done(arm.id) {
                let fact = fact(context, trial, check.fact);
                let Some(value) = fact.and_then(|f| f.value.as_deref()) else {
                    if (check.is_so)(&asked.label, "").is_some() {
                        unverified.insert(check.factor);
                    }
                    continue;
                };
                match (check.is_so)(&asked.label, value) {
                    None => {}
                    Some(true) => {
                        checked.insert(trial.seq);
                        shown.insert(check.factor);
                    }
                    Some(false) => {
                        let wrong = wrong.entry((arm.id, check.factor)).or_default();
                        wrong.asked = format!("{}={}", check.factor, asked.label);
                        wrong.found.insert(format!("{} {value}", check.fact));
                        wrong.trials.push(trial.seq);
                    }
                }
            }
        }
    }
    let mut findings: Vec<Finding> = wrong.iter().map(|((arm, _), wrong)| wrong.finding(context, *arm)).collect();
    findings.extend(context.index.arms().filter_map(|arm| of_holdfast(context, arm)));
    if wrong.is_empty() && !checked.is_empty() {
        let names: Vec<&str> = shown.iter().copied().collect();
        let sentence = format!(
            "Every arm was what its label says of {}: {} looked at.",
            words::list(&names),
            if checked.len() == 1 { "1 trial was".to_owned() } else { format!("{} trials were", checked.len()) }
        );
        findings.push(note(&META, FindingVerdict::Refuted, sentence));
    }
    if !unverified.is_empty() {
        let names: Vec<&str> = unverified.into_iter().collect();
        let sentence =
            format!("Whether {} took effect is not known in every trial: a fact is missing.", words::list(&names));
        findings.push(note(&META, FindingVerdict::Undecided, sentence));
    }
    findings
}

/// What holdfast's locks did in an arm that was to have them, by the notes of its trials.
fn of_holdfast(context: &Context<'_>, arm: &Arm) -> Option<Finding> {
    let done = context.index.done(arm.id);
    let notes: Vec<(u32, &str)> = done.iter().filter_map(|trial| Some((trial.seq, note_of_holdfast(trial)?))).collect();
    let without: Vec<(u32, &str)> =
        notes.iter().filter(|(_, note)| note.starts_with(HOLDFAST_HAD_NO_EFFECT)).copied().collect();
    let (shown, verdict) = match without.last() {
        Some(last) => (last, FindingVerdict::Supported),
        None => (notes.last()?, FindingVerdict::Refuted),
    };
    let of = if without.len() == notes.len() || without.is_empty() {
        String::new()
    } else {
        format!(" (so in {} of {} trials)", without.len(), notes.len())
    };
    let sentence = format!("{}: {}{of}.", arm.label, shown.1);
    let trials = without.iter().map(|(seq, _)| *seq).collect();
    Some(Finding { headline: !without.is_empty(), trials, ..note(&META, verdict, sentence) })
}

fn note_of_holdfast(trial: &Trial) -> Option<&str> {
    trial.notes.iter().map(String::as_str).find(|note| note.starts_with(OF_HOLDFAST))
}

/// Trials of one arm that were something else than the arm.
#[derive(Default)]
struct Wrong {
    asked: String,
    found: BTreeSet<String>,
    trials: Vec<u32>,
}

impl Wrong {
    fn finding(&self, context: &Context<'_>, arm: u32) -> Finding {
        let label = context.index.arm(arm).map_or("?", |a| a.label.as_str());
        let found: Vec<&str> = self.found.iter().map(String::as_str).collect();
        let sentence = format!(
            "{label}: the arm was not what its label says; {} was asked for, and it ran with {} ({}).",
            self.asked,
            words::list(&found),
            words::trials(&self.trials)
        );
        let trials = self.trials.clone();
        Finding { headline: true, trials, ..note(&META, FindingVerdict::Supported, sentence) }
    }
}

/// The level of a factor in an arm, or what the plan sets for every arm.
fn level<'a>(context: &Context<'a>, arm: &'a Arm, factor: &str) -> Option<&'a Level> {
    let settings = || context.bundle().plan.settings.iter().find(|(name, _)| name == factor).map(|(_, level)| level);
    arm.factors.get(factor).or_else(settings)
}

/// A fact of a trial: read before it, else at the begin of its boot.
fn fact<'a>(context: &Context<'a>, trial: &'a Trial, key: &str) -> Option<&'a Fact> {
    let of_boot = || {
        // The last reading: that of a boot that was opened again is the one that the repeats ran in.
        let readings = context.bundle().environment.iter().filter(|r| r.boot == trial.boot);
        readings.flat_map(|r| &r.facts).rfind(|f| f.key == key)
    };
    trial.environment_before.iter().find(|f| f.key == key).or_else(of_boot)
}

fn is_model(level: &str, model: &str) -> Option<bool> {
    // What leaves the model to the kernel (`boot.preempt=default`) asks for none in particular.
    PreemptModel::of_word(level).map(|_| level == model)
}

/// True if a release is that of `debian:VERSION`, which may be the begin of one: `debian:7.0` is 7.0.3 as well, but
/// not 7.01. Other kinds of kernels do not say their release.
fn is_release(level: &str, release: &str) -> Option<bool> {
    let version = level.strip_prefix("debian:")?.split('/').next()?;
    let numbers: String = version.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let numbers = numbers.trim_end_matches('.');
    if numbers.is_empty() {
        return None;
    }
    let numbers = if has_abi_number(release) { two_numbers(numbers) } else { numbers };
    let rest = release.strip_prefix(numbers);
    Some(rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit())))
}

/// True if a release has the number of Debian's ABI instead of the kernel's third one: 6.1.176 calls itself
/// `6.1.0-50-amd64`. Debian's kernels up to 6.5 do.
fn has_abi_number(release: &str) -> bool {
    let Some((numbers, rest)) = release.split_once('-') else { return false };
    let numbers: Option<Vec<u32>> = numbers.split('.').map(|number| number.parse().ok()).collect();
    let Some([major, minor, 0]) = numbers.as_deref() else { return false };
    (*major, *minor) <= (6, 5) && rest.starts_with(|c: char| c.is_ascii_digit())
}

/// The begin of a version up to its second number.
fn two_numbers(version: &str) -> &str {
    version.match_indices('.').nth(1).map_or(version, |(at, _)| version.get(..at).unwrap_or(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_that_of_its_level_or_not_or_the_level_does_not_say() {
        for (level, release, expect) in [
            ("debian:7.0", "7.0.3+deb14-amd64", Some(true)),
            ("debian:7.0", "7.0-rc3", Some(true)),
            ("debian:7", "7.2.1-amd64", Some(true)),
            ("debian:7.0", "7.01", Some(false)),
            ("debian:7.2", "6.19.14+deb14-amd64", Some(false)),
            ("debian:6.19.14/cloud", "6.19.14+deb14-cloud-amd64", Some(true)),
            ("debian:6.19.1", "6.19.14", Some(false)),
            ("debian:6.12.94-1", "6.12.94+deb13-amd64", Some(true)),
            ("debian:6.1.176", "6.1.0-50-amd64", Some(true)),
            ("debian:6.1", "6.1.0-50-cloud-amd64", Some(true)),
            ("debian:6.2.1", "6.1.0-50-amd64", Some(false)),
            ("debian:6.19.14", "6.19.0-1-amd64", Some(false)),
            ("debian:", "6.1", None),
            ("debian:/cloud", "6.1", None),
            ("file:/boot/vmlinuz-7.0", "6.1", None),
            ("host", "6.1", None),
        ] {
            assert_eq!(is_release(level, release), expect, "{level} {release}");
        }
    }
}
