//! Every switch of the tasks under test: their state, the cause, the next task, the wait.

use crate::kernel::layout::{
    CAUSES, HISTOGRAM_OFF, HISTOGRAM_ON, HISTOGRAM_WAIT_PREEMPTED, HISTOGRAM_WAIT_WOKEN, NAMED_PAIRS, OUT_STATES, Pair,
    PairCounts,
};
use crate::kernel::{KernelCollector, Part, WindowCounts, task_name};
use crate::reading::{Produces, histogram};
use holdup_model::{Collected, EvidenceItem, Meta};
pub(crate) static SWITCHES: KernelCollector = KernelCollector { meta: &META, produces: PRODUCES, part: &PART, report };

/// The program at the switch counts this in any case.
static PART: Part = Part { switches: &[], programs: &[], rings: &[] };

static META: Meta = Meta {
    id: "switches",
    summary: "every switch: where, why, by whom; waits and times off the CPU",
    docs: "A BPF program at the tracepoint sched_switch follows the threads of the processes under test, and those that they \
           start. The state that a task left the CPU in: sleeping, blocked (uninterruptible), at the user boundary (R), in \
           the kernel (R+), throttled by its cgroup, exited. The cause, for a runnable one: preempted for a task that \
           woke up, at the end of its slice, because a lazy request was promoted at the tick while it was in the kernel, \
           by a higher class, throttled, other (sched_yield, a change of affinity, cond_resched without a request). The cause \
           comes from when the task was asked to leave, which a program at __resched_curr sees (from 6.13 on, where the \
           kernel lets a program be at a function); else it is inferred \
           from how much of its slice the task had run, and `causes_inferred` says so. Whether a wake-up asks or the code that \
           charges time (a slice is over) is seen on the kernel's stack: on all of it at first, then in two words of it, which \
           are checked against the whole stack for one request in 64; mistakes are counted in a note.\n\n\
           A wait for a CPU begins when the task is woken up (sched_wakeup), or when it left the CPU while it was runnable. (The \
           kernel's own account, sched_info.run_delay, is not used: it leaves out the time from a wake-up to the switch \
           that it causes, because the clock of the run queue is not read anew in between.) Histograms are log-linear, at \
           most 0.8 % \
           wrong per value. `run_queue_wait_by_cpu_ns` has the same waits by the CPU that the task came to, at most 6 % wrong per \
           value. `preempted_by` names the task that took the CPU, `preempted_by_off_cpu_s` has how long the victim was off it.\n\n\
           Needs root (or CAP_BPF and CAP_PERFMON) and a kernel with BTF, 5.15 or later.",
    references: &[
        "kernel/sched/core.c:__schedule, trace_sched_switch; __resched_curr, trace_sched_set_need_resched_tp (v6.18)",
        "kernel/rcu/tree_plugin.h:rcu_read_unlock_special; kernel/trace/bpf_trace.c:__bpf_trace_run (v7.2)",
        "kernel/sched/core.c:ttwu_do_wakeup, trace_sched_wakeup; wakeup_preempt, rq_clock_skip_update (v6.18)",
        "kernel/sched/fair.c:update_deadline, update_curr; throttle_cfs_rq_work (v6.18)",
    ],
};

const PRODUCES: Produces = &[
    ("switched_out", "1", "times that tasks left a CPU, by role and place"),
    ("preempted_by_cause", "1", "times that runnable tasks left a CPU, by role and cause"),
    ("preempted_off_cpu_s", "s", "time that they were off the CPU then, by role and cause"),
    ("causes_inferred", "share", "share of the causes that were inferred, because the kernel does not report them"),
    ("preempted_by", "1", "times that one took the CPU from another, by their names (victim < preempter)"),
    ("preempted_by_off_cpu_s", "s", "time that victims were off the CPU then, by the names (victim < preempter)"),
    ("on_cpu_s", "s", "time on a CPU, by role"),
    ("run_queue_wait_s", "s", "time runnable without a CPU, by role"),
    ("off_cpu_s", "s", "time off the CPU until the task was back, by role"),
    ("migrated", "1", "times that a task came to another CPU than it had left, by role"),
];

/// In the order of `enum switch_out_state`.
pub(crate) const OUT_STATE_NAMES: [&str; OUT_STATES] =
    ["sleeping", "blocked", "user boundary (R)", "in the kernel (R+)", "throttled", "exited"];
/// In the order of `enum cause`.
pub(crate) const CAUSE_NAMES: [&str; CAUSES] =
    ["wake-up", "slice end", "promoted lazy request", "higher class", "throttled", "other"];

fn of_role(window: &WindowCounts, (index, role): (usize, &String), into: &mut Collected) {
    let c = &window.counts;
    let label = |what: &str| format!("{role}: {what}");
    for (state, count) in OUT_STATE_NAMES.iter().zip(c.left[index]) {
        into.items.push(EvidenceItem::labelled("switched_out", label(state), "1", count as f64));
    }
    for (cause, count) in CAUSE_NAMES.iter().zip(c.cause[index]) {
        into.items.push(EvidenceItem::labelled("preempted_by_cause", label(cause), "1", count as f64));
    }
    for (cause, ns) in CAUSE_NAMES.iter().zip(c.preempted_off_ns[index]) {
        into.items.push(EvidenceItem::labelled("preempted_off_cpu_s", label(cause), "s", ns as f64 / 1e9));
    }
    for (name, ns) in [("on_cpu_s", c.on_cpu_ns), ("run_queue_wait_s", c.wait_ns), ("off_cpu_s", c.off_cpu_ns)] {
        into.items.push(EvidenceItem::labelled(name, role, "s", ns[index] as f64 / 1e9));
    }
    into.items.push(EvidenceItem::labelled("migrated", role, "1", c.migrated[index] as f64));
    let names: [(usize, &str, String); 3 + OUT_STATES] = std::array::from_fn(|i| match i {
        0 => (HISTOGRAM_WAIT_WOKEN, "run_queue_wait_ns", label("after wake-up")),
        1 => (HISTOGRAM_WAIT_PREEMPTED, "run_queue_wait_ns", label("after preemption")),
        2 => (HISTOGRAM_ON, "on_cpu_ns", role.clone()),
        i => (HISTOGRAM_OFF + i - 3, "off_cpu_ns", label(OUT_STATE_NAMES[i - 3])),
    });
    for (which, name, label) in names {
        into.histograms.extend(histogram(name, label, window.histogram(index, which)));
    }
}

fn report(window: &WindowCounts, collected: &mut Collected) -> Result<u64, String> {
    for role in window.roles.iter().enumerate() {
        of_role(window, role, collected);
    }
    for (cpu, waits) in window.waits_by_cpu.iter().enumerate() {
        collected.histograms.extend(histogram("run_queue_wait_by_cpu_ns", cpu.to_string(), Some(waits)));
    }
    let causes: u64 = window.counts.cause.iter().flatten().sum();
    collected.items.push(match causes {
        0 => EvidenceItem::absent("causes_inferred", "share", "no task was preempted"),
        all => EvidenceItem::new("causes_inferred", "share", window.counts.inferred as f64 / all as f64),
    });
    if window.counts.causes_mistaken > 0 {
        let checked = window.counts.causes_mistaken;
        let note = "causes that were looked at twice were the other one: up to 64 times as many may be wrong between wake-up and slice end";
        collected.coverage.notes.push(format!("{checked} {note}"));
    }
    let mut pairs: Vec<(String, PairCounts)> = window
        .rows::<Pair, PairCounts>("preempted_by", NAMED_PAIRS)?
        .iter()
        .map(|(pair, counts)| (format!("{} < {}", task_name(&pair.victim), task_name(&pair.by)), *counts))
        .collect();
    pairs.sort_by(|a, b| (b.1.off_cpu_ns, &a.0).cmp(&(a.1.off_cpu_ns, &b.0)));
    for (label, counts) in pairs.iter().take(MOST_PAIRS) {
        collected.items.push(EvidenceItem::labelled("preempted_by", label, "1", counts.times as f64));
        let seconds = counts.off_cpu_ns as f64 / 1e9;
        collected.items.push(EvidenceItem::labelled("preempted_by_off_cpu_s", label, "s", seconds));
    }
    if let Some(more) = pairs.len().checked_sub(MOST_PAIRS).filter(|more| *more > 0) {
        collected.coverage.notes.push(format!("{more} pairs of names with the least time are left out"));
    }
    Ok(window.counts.switches)
}

/// Pairs of names in the evidence, those with the most time.
const MOST_PAIRS: usize = 100;
