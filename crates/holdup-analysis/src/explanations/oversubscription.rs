//! More runnable tasks than CPUs.

use super::stolen_by_higher_class::in_words;
use super::{Context, Explainer, Kind, advice, judge, share_in_words};
use crate::watched::{Watched, window_s};
use crate::words;
use holdup_model::explanation::{Cause, Missing};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Meta, Trial};
use holdup_stats::{CONFIDENCE, share_of_sums};

/// See [`META`].
pub struct Oversubscription;

/// What this explanation says about itself.
pub static META: Meta = Meta {
    id: "oversubscription",
    summary: "more runnable tasks than CPUs, with no lock in it",
    docs: "The part of the time in which the watched tasks were runnable and had no CPU (switches, else run-queue), of all \
           the time in which they were runnable. 10 % and more is named where the CPUs were busy and nothing else \
           explains the wait: locks, a CPU limit, a higher class; and where a tenth of a task and more waits on average, \
           because who sleeps nearly always waits as long as it runs. Waiting for a CPU is no verdict on throughput: changes \
           that raise the wait have raised the throughput too.",
    references: &["Documentation/scheduler/sched-stats.rst (v6.18): schedstat", "proc_stat(5)"],
};

static KIND: Kind = Kind {
    meta: &META,
    name: "more runnable tasks than CPUs",
    of: "the time in which the watched tasks were runnable",
    minimum: 0.1,
};

/// Fewer tasks than this wait on average: then it is the length of wake-ups, and not of a queue.
const HELD_UP: f64 = 0.1;
/// With more idle CPU time than this the CPUs are not what is short.
const IDLE: f64 = 0.2;
/// Tells whether locks explain it.
const SECTIONS: &str = "critical-sections";
/// What explains waiting for a CPU, or makes tasks use CPUs for nothing.
const EXPLAINS: [&str; 5] =
    ["throttling", "stolen-by-higher-class", "preempted-holder", "fault-under-lock", "spin-wait"];

impl Explainer for Oversubscription {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn explain(&self, context: &Context<'_>) -> Cause {
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
                "More runnable tasks than CPUs: tasks waited for a CPU {share} of the time in which they were runnable, \
                 and {} stand behind it.",
                words::list(&others)
            );
        } else if let Some(idle) = idle.as_ref().filter(|idle| idle.value >= IDLE) {
            cause.verdict = FindingVerdict::Undecided;
            cause.sentence = format!(
                "More runnable tasks than CPUs: tasks waited {share} of the time in which they were runnable although {} of \
                 all CPU time was idle: an affinity, a cpuset or balancing keeps them from it.",
                words::percent(idle.value)
            );
        } else if watched.of_collector(SECTIONS).next().is_none() {
            let missing = watched.why_missing(SECTIONS);
            cause.verdict = FindingVerdict::Undecided;
            cause.sentence = format!(
                "More runnable tasks than CPUs: tasks waited for a CPU {share} of the time in which they were runnable, and \
                 whether for a lock cannot be told without {SECTIONS} ({}).",
                missing.why
            );
            cause.missing.push(missing);
        } else {
            cause.sentence = format!(
                "The watched tasks waited for a CPU {share} of the time in which they were runnable, {} tasks on average.",
                words::number(cause.tasks_held_up.unwrap_or(0.0))
            );
            let fits = fits_alone(watched);
            if let Some((runnable, cpus)) = fits {
                cause.details.push(format!(
                    "They alone would fit: {} of them were runnable on average, on {} CPUs. Other work has the rest.",
                    words::number(runnable),
                    words::number(cpus)
                ));
            }
            if idle.is_none() {
                cause.details.push("Whether CPUs were idle meanwhile is not known: --collect cpu.".to_owned());
            }
            cause.advice = advices();
            if fits.is_some() {
                // Fewer tasks of their own change nothing where others' work is what is too much.
                cause.advice.remove(0);
            }
        }
        cause
    }
}

/// Waits of so few tasks at once are no queue, however small the time for which they ran.
fn leave_out_wake_ups(cause: &mut Cause) {
    if let Some(held_up) = cause.tasks_held_up.filter(|h| *h < HELD_UP && cause.verdict != FindingVerdict::Refuted) {
        cause.verdict = FindingVerdict::Refuted;
        cause.sentence = format!(
            "More runnable tasks than CPUs: {} tasks waited for a CPU on average; {HELD_UP} would count.",
            words::number(held_up)
        );
    }
}

/// How many watched tasks were runnable on average, and the CPUs; `None` where these are more than the CPUs.
fn fits_alone(watched: &Watched<'_>) -> Option<(f64, f64)> {
    let each = watched.trials.iter().filter_map(|t| waiting_and_running(watched, t).ok());
    let runnable = each.map(|(wait, on)| wait + on).sum::<f64>() / watched.watched_s();
    (runnable <= watched.cpus).then_some((runnable, watched.cpus))
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
            "other work off these CPUs, or a larger share for the watched (cgroup-cpu-weight, nice)",
            "gives them CPU time that others have now; others wait longer",
            "something else that runs here",
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
