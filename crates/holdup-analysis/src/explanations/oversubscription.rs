//! More runnable tasks than CPUs.

use super::stolen_by_higher_class::in_words;
use super::{Context, Kind, advice, judge_by_account, share_in_words, split};
use crate::account;
use crate::watched::{Watched, window_s};
use crate::words;
use holdup_model::explanation::{Advice, Cause, Missing};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Estimate, Meta, Trial};
use holdup_stats::{CONFIDENCE, share_of_sums};

pub static META: Meta = Meta {
    id: "oversubscription",
    summary: "more runnable tasks than CPUs, with no lock in it",
    docs: "The part of the time of sessions at work in which they wait for a CPU behind tasks of their own class (account); \
           without the account that in which the watched tasks were runnable and had no CPU (switches, else run-queue), of \
           all the time in which they were runnable. 10 % and more is named where the CPUs were busy and nothing else \
           explains the wait: locks, a CPU limit, a higher class, short connections; and where a tenth of a task and more waits on average, \
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
/// Other work matters from this part of the waiting on.
const OTHERS: f64 = 0.05;
/// Shows whether locks explain it.
const SECTIONS: &str = "critical-sections";
/// What explains waiting for a CPU, or makes tasks use CPUs for nothing.
const EXPLAINS: [&str; 6] =
    ["throttling", "stolen-by-higher-class", "preempted-holder", "fault-under-lock", "spin-wait", "short-connections"];

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let watched = context.watched;
    let by_switches = |trial: &Trial| {
        let (wait_s, on_s) = waiting_and_running(watched, trial)?;
        Ok((wait_s, wait_s + on_s))
    };
    let (mut cause, has_account) = judge_by_account(&KIND, watched, account::is_queued, by_switches);
    let of = if has_account { "of their time" } else { "of their runnable time" };
    cause.evidence = watched.present(&[
        (account::ACCOUNT, "account_s"),
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
    let idle = idle(watched);
    match not_cpu_bound(context, has_account, idle.as_ref()) {
        Some((verdict, why, missing)) => {
            cause.verdict = verdict;
            cause.sentence = format!("CPU saturation: tasks wait for a CPU {share} {of}{why}.");
            cause.missing.extend(missing);
            if verdict == FindingVerdict::Undecided {
                cause.details.extend(behind_others(&account::behind(watched, "behind other tasks")));
            }
        }
        None => {
            let tasks = if has_account { account::sessions(watched) } else { "the watched tasks" };
            cause.sentence = format!(
                "CPU-bound: {tasks} spend {share} {of} waiting for a CPU; {} runnable on {}.",
                tenths(runnable(watched)),
                words::count(watched.cpus as usize, "CPU")
            );
            found(watched, idle.is_some(), &mut cause);
        }
    }
    cause
}

fn tenths(number: f64) -> String {
    words::number((number * 10.0).round() / 10.0)
}

/// Why tasks that wait for a CPU are not bound by CPUs, or may not be.
fn not_cpu_bound(
    context: &Context<'_>,
    has_account: bool,
    idle: Option<&Estimate>,
) -> Option<(FindingVerdict, String, Option<Missing>)> {
    let watched = context.watched;
    let others: Vec<String> = EXPLAINS.iter().filter_map(|id| context.found(id)).map(in_words).collect();
    if !others.is_empty() {
        return Some((FindingVerdict::Refuted, format!(", explained by {}", words::list(&others)), None));
    }
    let why = if let Some(idle) = idle.filter(|idle| idle.value >= IDLE) {
        let idle = words::percent(idle.value);
        format!(
            " although {idle} of all CPU time is idle: an affinity, a cpuset or load balancing keeps them off idle CPUs, or \
             they wake up in bursts"
        )
    } else if idle.is_none() && runnable(watched) < watched.cpus / 2.0 {
        let (tasks, cpus) = (tenths(runnable(watched)), words::count(watched.cpus as usize, "CPU"));
        format!(
            " although {tasks} of them are runnable on {cpus}; whether other work has the CPUs is not known: --collect cpu"
        )
    } else if !has_account && watched.of_collector(SECTIONS).next().is_none() {
        let missing = watched.why_missing(SECTIONS);
        let why = format!("; whether a lock is the reason is not known without {SECTIONS} ({})", missing.why);
        return Some((FindingVerdict::Undecided, why, Some(missing)));
    } else {
        return None;
    };
    Some((FindingVerdict::Undecided, why, None))
}

fn behind_others(others: &[(String, f64)]) -> Option<String> {
    split(others, 3).map(|by| format!("Other work that they wait behind: {by}."))
}

fn found(watched: &Watched<'_>, is_idle_known: bool, cause: &mut Cause) {
    let others = account::behind(watched, "behind other tasks");
    cause.details.extend(behind_others(&others));
    cause.details.extend(account::maintenance_on_cpu(watched));
    let fits = runnable(watched) <= watched.cpus;
    if fits {
        cause.details.push("They alone would fit on the CPUs. Other work uses the rest.".to_owned());
    }
    if !is_idle_known {
        cause.details.push("Whether CPUs were idle is not known: --collect cpu.".to_owned());
    }
    let others_s: f64 = others.iter().filter(|(name, _)| name != account::ITSELF).map(|(_, s)| s).sum();
    let waits_s = account::pieces(watched, account::is_queued).map_or(0.0, |pieces| pieces.sums().0);
    // Fewer watched tasks change nothing where other work is too much, and other work's place nothing where there is none.
    let by_own = (!fits).then(fewer_tasks);
    let by_others = (fits || waits_s == 0.0 || others_s >= OTHERS * waits_s).then(other_work_elsewhere);
    cause.advice = by_own.into_iter().chain(by_others).collect();
}

/// The part of all CPU time that is idle.
fn idle(watched: &Watched<'_>) -> Option<Estimate> {
    let idle = watched.pieces(|t| {
        let idle = watched.cpu_share(t, &["idle", "iowait"])?;
        Ok((idle * window_s(t), window_s(t)))
    });
    idle.ok().and_then(|p| share_of_sums(&p.pieces, CONFIDENCE).ok())
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

fn fewer_tasks() -> Advice {
    advice(
        "fewer running tasks (a connection pooler), or more CPUs",
        "the wait goes down with the number of tasks; throughput stays, as long as all CPUs have work",
        "",
        "holdup run pgbench --clients 8,64",
        "set the number back",
    )
}

fn other_work_elsewhere() -> Advice {
    advice(
        "other work off these CPUs, or a larger share for the watched tasks (cgroup-cpu-weight, nice)",
        "gives them CPU time of other work, which waits longer",
        "other work on this host",
        "holdup run pgbench --vary cgroup-cpu-weight=100,1000",
        "write the old value back to cpu.weight",
    )
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
