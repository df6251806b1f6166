//! Tasks of a higher scheduling class that take the CPU.

use super::{Context, Kind, advice, grouped, judge_by_account, share_in_words, split};
use crate::account;
use crate::watched::Watched;
use crate::words;
use holdup_model::explanation::{Cause, Missing};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Meta, Trial};

pub static META: Meta = Meta {
    id: "stolen-by-higher-class",
    summary: "real-time, deadline or stop tasks that take the CPU",
    docs: "A task of SCHED_FIFO, SCHED_RR or SCHED_DEADLINE preempts ordinary tasks immediately, in every preemption model, and \
           keeps the CPU for as long as it wants it (a real-time one 95 % of the time by default). What is lost is the \
           part of the time of sessions at work in which they wait for a CPU that such a task has (account); without the \
           account the time off the CPU after such a preemption (switches), as a share of the time in which the watched \
           tasks ran or were kept from it. 2 % and more is named.",
    references: &["sched(7)", "kernel/sched/core.c:wakeup_preempt (v6.18)"],
};

static KIND: Kind = Kind {
    meta: &META,
    name: "preemption by a higher scheduling class",
    of: "the time the watched tasks ran or waited for such tasks",
    minimum: 0.02,
};

const SWITCHES: &str = "switches";
const HIGHER: &str = ": higher class";
/// The state of the account.
const CLASS: &str = "behind a higher class";

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let watched = context.watched;
    let is_behind = |entry: &account::Entry<'_>| entry.state == CLASS;
    let by_switches = |trial: &Trial| {
        let stolen = stolen_s(watched, trial)?;
        Ok((stolen, stolen + watched.required(trial, SWITCHES, "on_cpu_s", |_| true)?))
    };
    let (mut cause, has_account) = judge_by_account(&KIND, watched, is_behind, by_switches);
    cause.evidence = watched.present(&[
        (account::ACCOUNT, "account_s"),
        (account::ACCOUNT, "behind_s"),
        (SWITCHES, "preempted_by_cause"),
        (SWITCHES, "preempted_off_cpu_s"),
        (SWITCHES, "preempted_by_off_cpu_s"),
        (SWITCHES, "on_cpu_s"),
    ]);
    let by = watched.by_label(SWITCHES, "preempted_by_off_cpu_s");
    let who = split(&grouped(&by, |label| label.rsplit_once(" < ").map_or(label, |(_, by)| by)), 3);
    if let (Some(share), FindingVerdict::Supported) = (&cause.share, cause.verdict) {
        let behind = split(&account::behind(watched, CLASS), 3);
        cause.sentence = match behind {
            Some(by) if has_account => format!(
                "Real-time tasks: {} wait {} of their time for a CPU that a task of a higher scheduling class has ({by}).",
                account::sessions(watched),
                share_in_words(share)
            ),
            _ => format!(
                "Real-time tasks: real-time, deadline or stop tasks kept the CPU from the watched tasks for {} of the time \
                 these ran or waited for it.",
                share_in_words(share)
            ),
        };
        if let Some(who) = who.filter(|_| !has_account) {
            cause.details.push(format!("Tasks that ran after a preemption, any class, by the time they cost: {who}."));
        }
        cause.advice.push(advice(
            "keep such tasks off the CPUs of the watched ones (taskset, cpuset), or make them ordinary (chrt --other)",
            "removes it in full; what they do may have deadlines that it was made for",
            "find them: ps -eLo pid,tid,cls,rtprio,comm | grep -E 'FF|RR|DLN'",
            "holdup record --pid PID before and after",
            "chrt with the old policy and priority; taskset with the old list",
        ));
    }
    if !has_account
        && !cause.evidence.iter().any(|e| e.item == "preempted_off_cpu_s")
        && cause.tasks_held_up.is_some_and(|t| t > 0.0)
    {
        cause.details.push(
            "Its time is estimated: the share that higher classes have of all preemptions, of the time off the CPU \
             after any."
                .to_owned(),
        );
    }
    cause
}

/// The time off the CPU after preemptions by a higher class.
fn stolen_s(watched: &Watched<'_>, trial: &Trial) -> Result<f64, Missing> {
    let is_higher = |label: &str| label.ends_with(HIGHER);
    if let Ok(seconds) = watched.required(trial, SWITCHES, "preempted_off_cpu_s", is_higher) {
        return Ok(seconds);
    }
    watched.required(trial, SWITCHES, "switched_out", |_| true)?;
    let all = watched.total(trial, SWITCHES, "preempted_by_cause")?;
    let higher = watched.sum(trial, SWITCHES, "preempted_by_cause", is_higher)?;
    let off_s = watched.total(trial, SWITCHES, "preempted_by_off_cpu_s")?;
    Ok(if all > 0.0 { off_s * higher / all } else { 0.0 })
}

/// Its share in words, for the findings that it explains.
pub(super) fn in_words(cause: &Cause) -> String {
    let share = cause.share.as_ref().map(|s| words::percent(s.value)).unwrap_or_default();
    format!("{} ({share})", cause.name)
}
