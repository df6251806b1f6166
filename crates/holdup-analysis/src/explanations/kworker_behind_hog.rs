//! Per-CPU threads of the kernel that wait behind a task busy inside the kernel.

use super::{Context, Kind, advice, judge, share_in_words, split};
use crate::watched::window_s;
use holdup_model::Meta;
use holdup_model::explanation::Cause;
use holdup_model::outcome::FindingVerdict;

pub static META: Meta = Meta {
    id: "kworker-behind-hog",
    summary: "per-CPU kernel threads that wait behind a task busy in the kernel",
    docs: "Work that was queued on one CPU (packets of a virtual switch, completions) is done by that CPU's kworker, which can \
           go nowhere else. Behind a task that stays in the kernel it waits: under lazy up to a tick, under none up to the \
           next cond_resched(). What is lost is the time for which such threads were runnable and did not run while a task \
           was in the kernel there (kworkers), as a share of the windows, all CPUs together. Behind tasks in user mode they \
           wait as all others do, which is no separate cause. 2 % and more is named.",
    references: &[
        "kernel/workqueue.c (v6.18): bound pools",
        "kernel/sched/core.c:sched_tick (v6.18): a lazy request is promoted at the next tick",
    ],
};

static KIND: Kind =
    Kind { meta: &META, name: "delayed kworkers", of: "the time watched, all kworkers together", minimum: 0.02 };

const KWORKERS: &str = "kworkers";
const WAIT: &str = "kworker_wait_in_kernel_s";

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let watched = context.watched;
    let pieces = watched.pieces(|trial| Ok((watched.required(trial, KWORKERS, WAIT, |_| true)?, window_s(trial))));
    let mut cause = judge(&KIND, watched, pieces);
    cause.evidence = watched.present(&[(KWORKERS, WAIT), (KWORKERS, "kworker_wait_s"), (KWORKERS, "kworker_waits")]);
    if let Some(pairs) = split(&watched.by_label(KWORKERS, WAIT), 3) {
        cause.details.push(format!("Waiting < running task, by the time: {pairs}."));
    }
    if let (Some(share), FindingVerdict::Supported) = (&cause.share, cause.verdict) {
        let pairs = watched.by_label(KWORKERS, WAIT);
        let hog = pairs
            .first()
            .and_then(|(label, _)| label.rsplit_once(" < "))
            .map(|(_, hog)| format!(", most behind {hog}"));
        cause.sentence = format!(
            "Delayed kworkers: per-CPU kworkers were runnable and did not run for {} of the time{}.",
            share_in_words(share),
            hog.unwrap_or_default()
        );
        cause.advice.push(advice(
            "preemption model full",
            "the kernel thread preempts the busy path immediately; under lazy it waits up to a tick, under none until \
             cond_resched()",
            "a kernel with PREEMPT_DYNAMIC that offers full",
            "holdup run PLAN --vary preempt=lazy,full",
            "write the model back to /sys/kernel/debug/sched/preempt, or boot without preempt=",
        ));
        cause.advice.push(advice(
            "keep the busy task off the CPUs whose kernel threads matter (taskset, irq-affinity)",
            "removes it where the work can be separated by CPU",
            "",
            "holdup run stream --vary irq-affinity=0,1",
            "taskset and smp_affinity with the old lists",
        ));
    }
    cause
}
