//! Every switch of the tasks under test: where they were, why they left, who took the CPU, how long they waited.

use crate::kernel;
use crate::kernel::{
    CAUSES, HISTOGRAM_OFF, HISTOGRAM_ON, HISTOGRAM_WAIT_PREEMPTED, HISTOGRAM_WAIT_WOKEN, KernelCollector, PLACES,
    RoleSeen, Seen, Wants,
};
use crate::reading::Produces;
use holdup_model::{Collected, EvidenceHistogram, EvidenceItem, Meta};

/// The collector.
pub(crate) static SWITCHES: KernelCollector =
    KernelCollector { meta: &META, produces: PRODUCES, wants: Wants { switches: true, ..Wants::NONE }, told };

static META: Meta = Meta {
    id: "switches",
    summary: "every switch: where, why, by whom; waits and times off the CPU",
    docs: "A BPF program at the tracepoint sched_switch follows the threads of the processes under test, and those that they \
           start. Where a task was when it left the CPU: sleeping, blocked (uninterruptible), at the user boundary (R), in \
           the kernel (R+), throttled by its cgroup, exited. Why, for one that could go on: preempted for a task that \
           woke up, at the end of its slice, because a lazy request was promoted at the tick while it was in the kernel, \
           by a higher class, throttled, other (sched_yield, a change of affinity, cond_resched without a request). From \
           6.18 on the cause is what sched_set_need_resched told when the task was asked to leave; before, it is inferred \
           from how much of its slice the task had run, and `causes_inferred` says so.\n\n\
           A wait for a CPU begins when the task is woken up (sched_wakeup), or when it left the CPU and could go on. (The \
           kernel's own account, sched_info.run_delay, is not used: it leaves out the time from a wake-up to the switch \
           that it causes, because the clock of the run queue is not read anew in between.) Histograms are log-linear, at \
           most 0.8 % \
           wrong per value. `preempted_by` tells who took the CPU and how long the victim was off it then.\n\n\
           Needs root (or CAP_BPF and CAP_PERFMON) and a kernel with BTF, 5.15 or later.",
    references: &[
        "kernel/sched/core.c:__schedule, trace_sched_switch; __resched_curr, trace_sched_set_need_resched_tp (v6.18)",
        "kernel/sched/core.c:ttwu_do_wakeup, trace_sched_wakeup; wakeup_preempt, rq_clock_skip_update (v6.18)",
        "kernel/sched/fair.c:update_deadline, update_curr; throttle_cfs_rq_work (v6.18)",
    ],
};

const PRODUCES: Produces = &[
    ("switched_out", "1", "times that tasks left a CPU, by role and place"),
    ("preempted_by_cause", "1", "times that tasks left a CPU while they could go on, by role and cause"),
    ("preempted_off_cpu_s", "s", "time that they were off the CPU then, by role and cause"),
    ("causes_inferred", "share", "share of the causes that were inferred, because the kernel does not tell them"),
    ("preempted_by", "1", "times that one took the CPU from another, by their names (victim < preempter)"),
    ("preempted_by_off_cpu_s", "s", "time that victims were off the CPU then, by the names (victim < preempter)"),
    ("on_cpu_s", "s", "time on a CPU, by role"),
    ("run_queue_wait_s", "s", "time runnable without a CPU, by role"),
    ("off_cpu_s", "s", "time off the CPU until the task was back, by role"),
    ("migrated", "1", "times that a task came to another CPU than it had left, by role"),
];

/// In the order of `enum place`.
pub(crate) const PLACE_NAMES: [&str; PLACES] =
    ["sleeping", "blocked", "user boundary (R)", "in the kernel (R+)", "throttled", "exited"];
/// In the order of `enum cause`.
pub(crate) const CAUSE_NAMES: [&str; CAUSES] =
    ["wake-up", "slice end", "promoted lazy request", "higher class", "throttled", "other"];

fn of_role(seen: &RoleSeen, into: &mut Collected) {
    let label = |what: &str| format!("{}: {what}", seen.role);
    for (place, count) in PLACE_NAMES.iter().zip(seen.left) {
        into.items.push(EvidenceItem::labelled("switched_out", label(place), "1", count as f64));
    }
    for (cause, count) in CAUSE_NAMES.iter().zip(seen.cause) {
        into.items.push(EvidenceItem::labelled("preempted_by_cause", label(cause), "1", count as f64));
    }
    for (cause, ns) in CAUSE_NAMES.iter().zip(seen.preempted_off_ns) {
        into.items.push(EvidenceItem::labelled("preempted_off_cpu_s", label(cause), "s", ns as f64 / 1e9));
    }
    for (name, ns) in [("on_cpu_s", seen.on_cpu_ns), ("run_queue_wait_s", seen.wait_ns), ("off_cpu_s", seen.off_cpu_ns)]
    {
        into.items.push(EvidenceItem::labelled(name, &seen.role, "s", ns as f64 / 1e9));
    }
    into.items.push(EvidenceItem::labelled("migrated", &seen.role, "1", seen.migrated as f64));
    let names: [(usize, &str, String); 3 + PLACES] = std::array::from_fn(|i| match i {
        0 => (HISTOGRAM_WAIT_WOKEN, "run_queue_wait_ns", label("after wake-up")),
        1 => (HISTOGRAM_WAIT_PREEMPTED, "run_queue_wait_ns", label("after preemption")),
        2 => (HISTOGRAM_ON, "on_cpu_ns", seen.role.clone()),
        i => (HISTOGRAM_OFF + i - 3, "off_cpu_ns", label(PLACE_NAMES[i - 3])),
    });
    for (index, name, label) in names {
        if let Some(histogram) = seen.histograms.get(index).filter(|h| h.count() > 0) {
            let histogram = histogram.clone();
            into.histograms.push(EvidenceHistogram { name: name.to_owned(), label: Some(label), histogram });
        }
    }
}

fn told(seen: &Seen) -> Collected {
    let mut collected = Collected { collector: META.id.to_owned(), ..Collected::default() };
    for role in &seen.roles {
        of_role(role, &mut collected);
    }
    let causes: u64 = seen.roles.iter().flat_map(|r| r.cause).sum();
    collected.items.push(match causes {
        0 => EvidenceItem::absent("causes_inferred", "share", "no task was preempted"),
        all => EvidenceItem::new("causes_inferred", "share", seen.inferred as f64 / all as f64),
    });
    for (victim, by, times, ns) in seen.preempted_by.iter().take(MOST_PAIRS) {
        let label = format!("{victim} < {by}");
        collected.items.push(EvidenceItem::labelled("preempted_by", &label, "1", *times as f64));
        collected.items.push(EvidenceItem::labelled("preempted_by_off_cpu_s", &label, "s", *ns as f64 / 1e9));
    }
    collected.coverage = kernel::coverage(seen, seen.switches);
    if let Some(more) = seen.preempted_by.len().checked_sub(MOST_PAIRS).filter(|more| *more > 0) {
        collected.coverage.notes.push(format!("{more} pairs of names with the least time are left out"));
    }
    collected.cost = kernel::cost(seen, &mut collected.coverage);
    collected
}

/// Pairs of names that are told, those with the most time.
const MOST_PAIRS: usize = 100;
