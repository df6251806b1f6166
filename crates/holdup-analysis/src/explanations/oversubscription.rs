//! More runnable tasks than CPUs.

use super::stolen_by_higher_class::in_words;
use super::{Context, Kind, advice, judge, share_in_words};
use crate::watched::{Watched, window_s};
use crate::words;
use holdup_model::explanation::{Cause, Missing};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Meta, Trial};
use holdup_stats::{CONFIDENCE, share_of_sums};

/// What this explanation says about itself.
pub static META: Meta = Meta {
    id: "oversubscription",
    summary: "more runnable tasks than CPUs, with no lock in it",
    docs: "The part of the time in which the watched tasks were runnable and had no CPU (switches, else run-queue), of all \
           the time in which they were runnable. 10 % and more is named where the CPUs were busy and nothing else \
           explains the wait: locks, a CPU limit, a higher class; and where a tenth of a task and more waits on average, \
           because a task that sleeps nearly always waits as long as it runs. Waiting for a CPU is no verdict on throughput: changes \
           that raise the wait have raised the throughput too.",
    references: &["Documentation/scheduler/sched-stats.rst (v6.18): schedstat", "proc_stat(5)"],
};

static KIND: Kind =
    Kind { meta: &META, name: "CPU saturation", of: "the runnable time of the watched tasks", minimum: 0.1 };

/// Fewer tasks than this wait on average: then it is the length of wake-ups, and not of a queue.
const HELD_UP: f64 = 0.1;
/// With more idle CPU time than this the CPUs are not what is short.
const IDLE: f64 = 0.2;
/// Shows whether locks explain it.
const SECTIONS: &str = "critical-sections";
/// What explains waiting for a CPU, or makes tasks use CPUs for nothing.
const EXPLAINS: [&str; 5] =
    ["throttling", "stolen-by-higher-class", "preempted-holder", "fault-under-lock", "spin-wait"];

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let watched = context.watched;
    let pieces = watched.pieces(|trial| {
        let (wait_s, on_s) = waiting_and_running(watched, trial)?;
        Ok((wait_s, wait_s + on_s))
    });
    let mut cause = judge(&KIND, watched, pieces);
    cause.evidence = watched.present(&[
        ("switches", "run_queue_wait_s"),
        ("switches", "on_cpu_s"),
        ("run-queue", "run_queue_waiting"),
        ("cpu", "cpu_used"),
        ("cpu", "cpu_share"),
    ]);
    leave_out_wake_ups(&mut cause);
    if cause.verdict != FindingVerdict::Supported {
        return cause;
    }
    let Some(share) = cause.share.as_ref().map(share_in_words) else { return cause };
    let others: Vec<String> = EXPLAINS.iter().filter_map(|id| context.found(id)).map(in_words).collect();
    let idle = watched.pieces(|t| {
        let idle = watched.required(t, "cpu", "cpu_share", |label| label == "idle" || label == "iowait")?;
        Ok((idle * window_s(t), window_s(t)))
    });
    let idle = idle.ok().and_then(|p| share_of_sums(&p.pieces, CONFIDENCE).ok());
    if !others.is_empty() {
        cause.verdict = FindingVerdict::Refuted;
        cause.sentence = format!(
            "CPU saturation: tasks wait for a CPU {share} of their runnable time, explained by {}.",
            words::list(&others)
        );
    } else if let Some(idle) = idle.as_ref().filter(|idle| idle.value >= IDLE) {
        cause.verdict = FindingVerdict::Undecided;
        cause.sentence = format!(
            "CPU saturation: tasks wait for a CPU {share} of their runnable time although {} of all CPU time is idle: an \
             affinity, a cpuset or load balancing keeps them off idle CPUs.",
            words::percent(idle.value)
        );
    } else if watched.of_collector(SECTIONS).next().is_none() {
        let missing = watched.why_missing(SECTIONS);
        cause.verdict = FindingVerdict::Undecided;
        cause.sentence = format!(
            "CPU saturation: tasks wait for a CPU {share} of their runnable time; whether a lock is the reason is not \
             known without {SECTIONS} ({}).",
            missing.why
        );
        cause.missing.push(missing);
    } else {
        let (runnable, cpus) = (runnable(watched), watched.cpus);
        cause.sentence = format!(
            "CPU-bound: the watched tasks spend {share} of their runnable time waiting for a CPU; {} runnable on {}.",
            words::number((runnable * 10.0).round() / 10.0),
            words::count(cpus as usize, "CPU")
        );
        let fits = runnable <= cpus;
        if fits {
            cause.details.push("They alone would fit on the CPUs. Other work uses the rest.".to_owned());
        }
        if idle.is_none() {
            cause.details.push("Whether CPUs were idle is not known: --collect cpu.".to_owned());
        }
        cause.advice = advices();
        if fits {
            // Fewer watched tasks change nothing where other work is too much.
            cause.advice.remove(0);
        }
    }
    cause
}

/// When this few tasks wait at the same time there is no queue, however short they ran.
fn leave_out_wake_ups(cause: &mut Cause) {
    if let Some(held_up) = cause.tasks_held_up.filter(|h| *h < HELD_UP && cause.verdict != FindingVerdict::Refuted) {
        cause.verdict = FindingVerdict::Refuted;
        cause.sentence = format!(
            "CPU saturation: {} tasks wait for a CPU on average (threshold {HELD_UP}).",
            words::number(held_up)
        );
    }
}

/// How many watched tasks were runnable on average.
fn runnable(watched: &Watched<'_>) -> f64 {
    let each = watched.trials.iter().filter_map(|t| waiting_and_running(watched, t).ok());
    each.map(|(wait, on)| wait + on).sum::<f64>() / watched.watched_s()
}

fn advices() -> Vec<holdup_model::explanation::Advice> {
    vec![
        advice(
            "fewer running tasks (a connection pooler), or more CPUs",
            "the wait goes down with the number of tasks; throughput stays, as long as all CPUs have work",
            "",
            "holdup run pgbench --clients 8,64",
            "set the number back",
        ),
        advice(
            "other work off these CPUs, or a larger share for the watched tasks (cgroup-cpu-weight, nice)",
            "gives them CPU time of other work, which waits longer",
            "other work on this host",
            "holdup run pgbench --vary cgroup-cpu-weight=100,1000",
            "write the old value back to cpu.weight",
        ),
    ]
}

/// Task-seconds without a CPU although runnable, and on a CPU.
fn waiting_and_running(watched: &Watched<'_>, trial: &Trial) -> Result<(f64, f64), Missing> {
    let by_switches = watched.required(trial, "switches", "run_queue_wait_s", |_| true);
    if let (Ok(wait), Ok(on)) = (by_switches, watched.required(trial, "switches", "on_cpu_s", |_| true)) {
        return Ok((wait, on));
    }
    let waiting = watched.required(trial, "run-queue", "run_queue_waiting", |_| true)?;
    Ok((waiting * window_s(trial), watched.cpu_s(trial)?))
}
