//! A control group that used up its CPU limit.

use super::{Context, Kind, advice, judge, judge_by_account, share_in_words};
use crate::account;
use crate::watched::{Watched, seconds_in, window_s};
use crate::words;
use holdup_model::explanation::{Cause, Missing};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Meta, Trial};

pub static META: Meta = Meta {
    id: "throttling",
    summary: "a control group that used up its CPU limit",
    docs: "The part of the time of sessions at work in which they could run, and the group of their processes, or one above \
           it, had used its CPU limit up (account). Without the account: the time for which the group was throttled \
           (cpu.stat: throttled_usec, added up over its CPUs), by the windows and CPUs. 1 % and more is named.",
    references: &[
        "Documentation/admin-guide/cgroup-v2.rst: cpu.stat (v6.18)",
        "kernel/sched/fair.c:throttle_cfs_rq (v6.18)",
    ],
};

static KIND: Kind = Kind { meta: &META, name: "CPU throttling", of: "the CPU time of the windows", minimum: 0.01 };

const GROUP: &str = "cgroup-throttling";

pub(super) fn explain(context: &Context<'_>) -> Cause {
    let watched = context.watched;
    let is_throttled = |entry: &account::Entry<'_>| entry.state == "throttled";
    let by_group = |trial: &Trial| Ok((throttled_s(watched, trial)?, window_s(trial) * watched.cpus));
    let (mut cause, has_account) = match account::not_seen(watched, "throttled") {
        Some(missing) => (judge(&KIND, watched, watched.pieces(by_group).map_err(|_| missing)), false),
        None => judge_by_account(&KIND, watched, is_throttled, by_group),
    };
    cause.evidence = watched.present(&[
        (account::ACCOUNT, "account_s"),
        (GROUP, "cgroup_throttled_share"),
        (GROUP, "cgroup_throttled_periods"),
        (GROUP, "cgroup_periods"),
        ("switches", "switched_out"),
    ]);
    let sum = |item: &str| watched.by_label(GROUP, item).iter().map(|(_, n)| n).sum::<f64>();
    let (periods, throttled) = (sum("cgroup_periods"), sum("cgroup_throttled_periods"));
    if periods > 0.0 {
        cause.details.push(format!(
            "{} of {} periods of the limit ended throttled.",
            words::number(throttled),
            words::number(periods)
        ));
    }
    if let (Some(share), FindingVerdict::Supported) = (&cause.share, cause.verdict) {
        let (sessions, of) =
            if has_account { (account::sessions(watched), "their time") } else { ("the group's CPUs", "the time") };
        cause.sentence = format!(
            "CPU limit: {sessions} are throttled {} of {of}, because their control group, or one above it, has used up its \
             cpu.max.",
            share_in_words(share)
        );
        cause.advice.push(advice(
            "a higher CPU limit, or none (cpu.max)",
            "removes it in full; what else runs on the host gets less",
            "the limit may be set in the unit (CPUQuota=), the container or the pod (limits.cpu)",
            "holdup run pgbench --vary cgroup-cpu-max=1,max",
            "write the old value back to cpu.max",
        ));
        cause.advice.push(advice(
            "no more running tasks than the limit has CPUs",
            "the limit is used up more slowly; a lock holder is throttled like any other task",
            "",
            "holdup run pgbench --clients 2,16",
            "set the number back",
        ));
    }
    cause
}

fn throttled_s(watched: &Watched<'_>, trial: &Trial) -> Result<f64, Missing> {
    let by_group = watched.required(trial, GROUP, "cgroup_throttled_share", |_| true);
    by_group.map(|share| share * window_s(trial)).or_else(|missing| {
        let switches = watched.collected(trial, "switches").map_err(|_| missing.clone())?;
        watched.required(trial, "switches", "switched_out", |_| true).map_err(|_| missing)?;
        Ok(seconds_in(switches, "off_cpu_ns", |label| label.ends_with(": throttled")))
    })
}
