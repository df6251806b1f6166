//! CPU time spent in the loops that wait for a lock.

use super::fault_under_lock::waiting_behind_s;
use super::preempted_holder::mapped;
use super::{Context, Kind, advice, grouped, judge, share_in_words, split};
use crate::watched::{Watched, before_colon};
use crate::words;
use holdup_model::explanation::Cause;
use holdup_model::outcome::FindingVerdict;
use holdup_model::stacks::{Frame, Stack};
use holdup_model::{Meta, StackProfile};
use std::collections::BTreeMap;

pub static META: Meta = Meta {
    id: "spin-wait",
    summary: "CPU time spent waiting in a spin loop for a lock, but behind a holder off the CPU",
    docs: "The share of the watched tasks' samples that lie in a loop waiting for a lock (critical-sections), and the call \
           path that leads there (cpu-profile). Waiting behind a holder that is off the CPU belongs to preempted-holder and is \
           subtracted. That the holder runs is said where holders were sampled on a CPU; else it is not known. Subtracted is also the waiting behind page faults of holders (faults). Without critical-sections the stacks alone can show it, \
           by the names of known waiting functions, and cannot exclude it. 3 % and more is named.",
    references: &["src/backend/storage/lmgr/s_lock.c:s_lock, perform_spin_delay (PostgreSQL 15 to 18)"],
};

static KIND: Kind = Kind { meta: &META, name: "lock contention", of: "the watched tasks' CPU time", minimum: 0.03 };

const SECTIONS: &str = "critical-sections";
const PROFILE: &str = "cpu-profile";

/// Functions that do nothing but wait for a lock.
const WAITING: &[&str] = &[
    "s_lock",
    "perform_spin_delay",
    "pthread_spin_lock",
    "native_queued_spin_lock_slowpath",
    "__pv_queued_spin_lock_slowpath",
    "queued_spin_lock_slowpath",
    "osq_lock",
    "rwsem_spin_on_owner",
    "mutex_spin_on_owner",
];

/// Frames shown of a path, the waiting function included.
const SHOWN: usize = 5;

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let watched = context.watched;
    let by_sections = watched.pieces(|trial| {
        mapped(watched, trial)?;
        let all = watched.required(trial, SECTIONS, "section_samples", |_| true)?;
        let waiting = watched.sum(trial, SECTIONS, "section_samples", |label| label.ends_with(": waiter"))?;
        let waiter_s = watched.total(trial, SECTIONS, "waiter_s")?;
        let behind_s = watched.total(trial, SECTIONS, "waiter_behind_off_cpu_holder_s")?;
        if waiting == 0.0 {
            return Ok((0.0, watched.cpu_s(trial).unwrap_or(all)));
        }
        // In seconds, so that causes can be put in order.
        let second = waiter_s / waiting;
        let faults_s = watched.total(trial, "faults", "fault_in_section_s").unwrap_or(0.0);
        let faulting_s = waiting_behind_s(watched, trial, faults_s).unwrap_or(0.0);
        Ok(((waiter_s - behind_s - faulting_s).max(0.0), all * second))
    });
    let has_sections = by_sections.is_ok();
    let missing = by_sections.as_ref().err().cloned();
    let pieces = by_sections.or_else(|missing| {
        let by_stacks = watched.pieces(|trial| {
            let collected = watched.collected(trial, PROFILE)?;
            let profile = collected.stacks.iter().find(|p| p.name == "on_cpu").ok_or_else(|| missing.clone())?;
            Ok(in_waiting_functions(profile))
        });
        by_stacks.map_err(|_| missing)
    });
    let mut cause = judge(&KIND, watched, pieces);
    cause.evidence = watched.present(&[
        (SECTIONS, "section_samples"),
        (SECTIONS, "waiter_s"),
        (SECTIONS, "waiter_behind_off_cpu_holder_s"),
        (PROFILE, "on_cpu"),
    ]);
    if let (false, Some(missing), FindingVerdict::Refuted) = (has_sections, missing, cause.verdict) {
        cause.verdict = FindingVerdict::Undecided;
        cause.sentence = format!(
            "Lock contention: no known waiting function takes that much; others cannot be recognised without {} ({}).",
            missing.collector, missing.why
        );
        cause.missing.push(missing);
    }
    let running = has_sections.then(|| part_with_running_holder(watched));
    let path = heaviest_path(watched);
    if let (Some(share), FindingVerdict::Supported) = (&cause.share, cause.verdict) {
        cause.sentence = format!(
            "Lock contention: the watched tasks spend {} of their CPU time spinning for a lock{}.",
            share_in_words(share),
            of_which(running)
        );
    }
    cause.details.extend(details(watched, path));
    if cause.verdict == FindingVerdict::Supported && running.is_some_and(|part| part < NEARLY_ALL) {
        cause.details.push(
            "A holder counts as running where one was sampled in the section. Where none was, the section is short, the \
             next in line is off the CPU, or the lock's function is not known: --section FUNCTION."
                .to_owned(),
        );
    }
    if cause.verdict == FindingVerdict::Supported && running.is_none_or(|part| part >= HARDLY_ANY) {
        cause.advice.push(advice(
            "less demand for the lock: fewer running tasks, a partitioned or shorter section",
            "spinning behind a holder that runs is contention: no preemption model, slice or policy changes it",
            "",
            "holdup run pgbench --clients 8,64",
            "set the number back",
        ));
    }
    cause
}

/// What is known of the holder, of which this part was seen to run.
fn of_which(running: Option<f64>) -> String {
    match running {
        Some(part) if part >= NEARLY_ALL => " whose holder runs".to_owned(),
        Some(part) if part >= HARDLY_ANY => {
            format!("; for {} of that its holder runs, for the rest that is not known", words::percent(part))
        }
        Some(_) => "; whether its holder runs is not known".to_owned(),
        None => " (by the names of waiting functions)".to_owned(),
    }
}

/// From this part on all count: both are sampled.
const NEARLY_ALL: f64 = 0.75;
/// Below this part none count.
const HARDLY_ANY: f64 = 0.1;

/// The part of the spinning behind no holder off the CPU whose holder was seen: while a holder is on one CPU, waiters can be
/// on all others.
fn part_with_running_holder(watched: &Watched<'_>) -> f64 {
    let sum = |of: &dyn Fn(&str) -> bool, item: &str| -> f64 {
        watched.by_label(SECTIONS, item).iter().filter(|(label, _)| of(label)).map(|(_, n)| n).sum()
    };
    let waiters = sum(&|label| label.ends_with(": waiter"), "section_samples");
    let holders = sum(&|label| label.ends_with(": holder"), "section_samples");
    let waiter_s = sum(&|_| true, "waiter_s");
    let rest_s = waiter_s - sum(&|_| true, "waiter_behind_off_cpu_holder_s");
    if waiters <= 0.0 || rest_s <= 0.0 {
        return 0.0;
    }
    let possible_s = holders * (watched.cpus - 1.0).max(1.0) * waiter_s / waiters;
    let known_s = rest_s - sum(&|_| true, "waiter_not_known_s");
    (possible_s.min(known_s) / rest_s).max(0.0)
}

fn details(watched: &Watched<'_>, path: Option<(String, f64)>) -> Vec<String> {
    let mut details = Vec::new();
    let samples = watched.by_label(SECTIONS, "section_samples");
    let all: f64 = samples.iter().map(|(_, n)| n).sum();
    let waiters: Vec<(String, f64)> = samples.iter().filter(|(l, _)| l.ends_with(": waiter")).cloned().collect();
    let waiting: f64 = waiters.iter().map(|(_, n)| n).sum();
    if let Some(sections) = split(&grouped(&waiters, before_colon), 3) {
        details.push(format!(
            "In all {} of the samples wait for a lock, holders on and off the CPU together: {sections}.",
            words::percent(waiting / all)
        ));
    }
    if let Some((path, share)) = path {
        details.push(format!("The heaviest path there, {} of all samples: {path}.", words::percent(share)));
    }
    details
}

fn is_waiting(frame: &Frame) -> bool {
    // The compiler's copies carry a suffix: `s_lock.constprop.0`.
    let name = frame.function.split('.').next().unwrap_or_default();
    WAITING.contains(&name)
}

/// Where a stack enters a waiting function, as a place in its frames. Only the innermost frames count: interrupts and
/// sleeps of a waiting function lie above it.
fn waits_at(profile: &StackProfile, stack: &Stack) -> Option<usize> {
    let frame = |index: &u32| profile.frames.get(*index as usize);
    stack.frames.iter().position(|index| frame(index).is_some_and(is_waiting))
}

/// The time in waiting functions, and of all stacks, s (samples where no period is recorded).
fn in_waiting_functions(profile: &StackProfile) -> (f64, f64) {
    let unit = if profile.period_ns > 0 { profile.period_ns as f64 / 1e9 } else { 1.0 };
    let sum =
        |of: &dyn Fn(&&Stack) -> bool| profile.stacks.iter().filter(of).map(|s| s.weight as f64).sum::<f64>() * unit;
    (sum(&|s| waits_at(profile, s).is_some()), sum(&|_| true))
}

/// The path of functions into a waiting one that most samples have, and its share of all samples.
fn heaviest_path(watched: &Watched<'_>) -> Option<(String, f64)> {
    let mut paths: BTreeMap<Vec<&str>, u64> = BTreeMap::new();
    let mut all = 0_u64;
    for profile in watched.stacks(PROFILE, "on_cpu") {
        for stack in &profile.stacks {
            all = all.saturating_add(stack.weight);
            let Some(at) = waits_at(profile, stack) else { continue };
            let frames = &stack.frames[at.saturating_sub(SHOWN - 1)..=at];
            let names = frames.iter().filter_map(|f| profile.frames.get(*f as usize)).map(|f| f.function.as_str());
            let weight = paths.entry(names.collect()).or_default();
            *weight = weight.saturating_add(stack.weight);
        }
    }
    let (path, weight) = paths.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(&a.0)))?;
    Some((path.join(" → "), weight as f64 / all as f64))
}
