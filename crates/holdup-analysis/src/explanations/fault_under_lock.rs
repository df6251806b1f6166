//! Page faults of tasks that hold a lock.

use super::preempted_holder::mapped;
use super::{Context, Kind, advice, judge, share_in_words, split};
use crate::watched::Watched;
use crate::words;
use holdup_model::explanation::{Advice, Cause, Missing};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Meta, Trial};

pub static META: Meta = Meta {
    id: "fault-under-lock",
    summary: "page faults of tasks that hold a lock, and the waiting behind them",
    docs: "A page fault inside a critical section makes the section longer by as long as the fault takes, for all that wait. \
           What is lost is the time of the faults (faults), and of the waiting for the same lock (critical-sections) the \
           part that the faults have of the time for which it was held. That part is an estimate: it takes waiters to be \
           as many during a fault as during the rest of the section, and they are more. Where critical-sections is \
           missing only the faults themselves count, which is a lower bound. 1 % of the watched tasks' CPU time and more \
           is named.",
    references: &["mm/memory.c:handle_mm_fault (v6.18)"],
};

static KIND: Kind =
    Kind { meta: &META, name: "page faults under a lock", of: "the watched tasks' CPU time", minimum: 0.01 };

const FAULTS: &str = "faults";
const SECTIONS: &str = "critical-sections";

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let watched = context.watched;
    let pieces = watched.pieces(|trial| {
        let faults_s = watched.total(trial, FAULTS, "fault_in_section_s")?;
        if faults_s == 0.0 {
            // Without a map of sections no fault lies in one: then a zero says nothing.
            mapped(watched, trial)?;
        }
        Ok((faults_s + waiting_behind_s(watched, trial, faults_s).unwrap_or(0.0), watched.cpu_s(trial)?))
    });
    let mut cause = judge(&KIND, watched, pieces);
    cause.evidence = watched.present(&[
        (FAULTS, "fault_in_section_s"),
        (FAULTS, "fault_in_section"),
        (FAULTS, "first_touch"),
        (FAULTS, "fault_in_section_ns"),
        (SECTIONS, "waiter_s"),
        (SECTIONS, "section_samples"),
        ("switches", "on_cpu_s"),
        ("cpu", "cpu_used"),
    ]);
    let is_bound = watched.trials.iter().any(|t| waiting_behind_s(watched, t, 0.0).is_err());
    if is_bound && cause.share.is_some() {
        cause.details.push(
            "The waiting behind these faults is not included, because critical-sections counted none: a lower bound."
                .to_owned(),
        );
        if cause.verdict == FindingVerdict::Refuted {
            // A lower bound below the minimum does not speak against the cause.
            cause.verdict = FindingVerdict::Undecided;
            let missing = watched.why_missing(SECTIONS);
            cause.sentence =
                format!("Page faults under a lock: the waiting behind them is not known ({}).", missing.why);
            cause.missing.push(missing);
        }
    }
    cause.details.extend(details(watched));
    if let (Some(share), FindingVerdict::Supported) = (&cause.share, cause.verdict) {
        cause.sentence = format!(
            "Page faults under a lock: faults of lock holders, and the waiting behind them, take {} of the watched tasks' \
             CPU time.",
            share_in_words(share)
        );
    }
    if cause.share.is_some() && cause.verdict != FindingVerdict::Refuted {
        cause.advice = advices(watched);
    }
    cause
}

/// The part of the waiting that lies behind faults: as large as the faults' part of the time for which locks are held.
pub(super) fn waiting_behind_s(watched: &Watched<'_>, trial: &Trial, faults_s: f64) -> Result<f64, Missing> {
    let waiter_s = watched.total(trial, SECTIONS, "waiter_s")?;
    let role = |role: &'static str| move |label: &str| label.ends_with(role);
    let waiters = watched.sum(trial, SECTIONS, "section_samples", role(": waiter"))?;
    let holders = watched.sum(trial, SECTIONS, "section_samples", role(": holder"))?;
    if waiters == 0.0 {
        return Ok(0.0);
    }
    let on_cpu_s = holders * waiter_s / waiters;
    let held_s = on_cpu_s + watched.total(trial, SECTIONS, "holder_off_cpu_s")?;
    let part = if held_s > faults_s { faults_s / held_s } else { 1.0 };
    Ok(if faults_s > 0.0 { waiter_s * part } else { 0.0 })
}

fn details(watched: &Watched<'_>) -> Vec<String> {
    let mut details = Vec::new();
    let number = watched.by_label(FAULTS, "fault_in_section");
    let all: f64 = number.iter().map(|(_, n)| n).sum();
    if let Some(sections) = split(&number, 3) {
        details.push(format!("{} faults hit a holder: {sections}.", words::number(all)));
    }
    let lengths = watched.histogram(FAULTS, "fault_in_section_ns", |_| true);
    if let (Some(median), Some(p99)) = (lengths.quantile_ns(0.5), lengths.quantile_ns(0.99)) {
        let us = |ns: u64| words::number(ns as f64 / 1e3);
        details.push(format!("Such a fault takes {} us at the median and {} us at p99.", us(median), us(p99)));
    }
    let sum = |item: &str| watched.by_label(FAULTS, item).iter().map(|(_, n)| n).sum::<f64>();
    let (first, faults) = (sum("first_touch"), sum("faults"));
    if faults > 0.0 {
        details.push(format!(
            "Of all faults of the watched tasks {} are first touches of a page.",
            words::percent(first / faults)
        ));
    }
    details
}

fn advices(watched: &Watched<'_>) -> Vec<Advice> {
    let first: f64 = watched.by_label(FAULTS, "first_touch").iter().map(|(_, n)| n).sum();
    let faults: f64 = watched.by_label(FAULTS, "faults").iter().map(|(_, n)| n).sum();
    let sure = if faults > 0.0 && first > 0.5 * faults {
        "most faults here are first touches, which is what it removes"
    } else {
        "it removes first touches; how many of the faults under the lock are first touches is not known"
    };
    vec![
        advice(
            "huge pages for the memory that is touched under the lock",
            &format!("one fault instead of up to 512; {sure}"),
            "PostgreSQL: huge_pages = on, with vm.nr_hugepages for all of shared_buffers; a restart",
            "holdup run pgbench --vary postgres.huge_pages=off,on",
            "set huge_pages back and restart; vm.nr_hugepages = 0 gives the memory back",
        ),
        advice(
            "a warm pool, or the memory touched by each process before it takes the lock",
            &format!("no first touch under the lock for as long as the process lives; {sure}"),
            "page tables are per process: a new connection starts cold",
            "holdup run pgbench --vary postgres.pool=warm,cold",
            "nothing stays changed",
        ),
    ]
}
