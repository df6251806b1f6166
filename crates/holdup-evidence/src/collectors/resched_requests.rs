//! Requests to reschedule: where each was made, and where it came due.

use crate::kernel::layout::{DUES, ENTRIES, MADE_HERE, MADES};
use crate::kernel::{KernelCollector, Part, WindowCounts};
use crate::reading::Produces;
use holdup_model::{Collected, EvidenceItem, Meta};
pub(crate) static RESCHED_REQUESTS: KernelCollector =
    KernelCollector { meta: &META, produces: PRODUCES, part: &PART, report };

static PART: Part = Part { switches: &["want_requests"], programs: &[], rings: &[] };

static META: Meta = Meta {
    id: "resched-requests",
    summary: "requests to reschedule: where they are made and where they come due",
    docs: "A task that is to leave its CPU is asked to (`__resched_curr`), and leaves where the kernel next looks: on the way back to \
           user mode, or inside the kernel where its preemption model allows that. For each task under test that left its CPU so, \
           this counts by whom and in what the request was made, in what the kernel was when it came due, and the time between. A \
           request of another CPU comes with an interrupt (`reschedule interrupt`) but under the lazy model, which sends none: there it \
           waits for the next entry of the kernel. `slice end` is the code that charges time, in the tick for the most part.\n\n\
           What the kernel was entered for is read from its stack: a page fault, a system call, the interrupt of the timer, of \
           a request to reschedule, of a call by another CPU, or another one. On arm64 all interrupts are one kind.\n\n\
           Needs root (or CAP_BPF and CAP_PERFMON) and a kernel with BTF, 6.13 or later, whose functions have addresses in \
           /proc/kallsyms. Each request takes some microseconds longer while it counts.",
    references: &[
        "kernel/sched/core.c:__resched_curr, resched_curr_lazy, ttwu_queue_cond (v6.19)",
        "kernel/entry/common.c:exit_to_user_mode_loop, irqentry_exit (v6.19)",
        "arch/x86/include/asm/idtentry.h:asm_exc_page_fault, asm_sysvec_apic_timer_interrupt (v6.19)",
    ],
};

const PRODUCES: Produces = &[
    ("resched_requests", "1", "requests that came due, by role, where they were made and where they came due"),
    ("resched_request_s", "s", "time from there until the task left its CPU, by role and where they came due"),
];

/// In the order of `enum kernel_entry`.
pub(crate) const ENTRY_NAMES: [&str; ENTRIES] = [
    "page fault",
    "system call",
    "timer interrupt",
    "reschedule interrupt",
    "call by another CPU",
    "another interrupt",
    "something else",
];

fn made(index: usize) -> String {
    let here = index.checked_sub(MADE_HERE).map(|entry| format!("{} here", ENTRY_NAMES[entry]));
    here.unwrap_or_else(|| ["another CPU", "slice end"][index].to_owned())
}

fn due(index: usize) -> String {
    let place = if index < ENTRIES { "user boundary after" } else { "in the kernel in" };
    format!("{place} {}", ENTRY_NAMES[index % ENTRIES])
}

fn report(window: &WindowCounts, collected: &mut Collected) -> Result<u64, String> {
    let mut all = 0;
    for (index, role) in window.roles.iter().enumerate() {
        let (requests, times) = (window.counts.requests[index], window.counts.request_ns[index]);
        for (from, to) in (0..MADES).flat_map(|from| (0..DUES).map(move |to| (from, to))) {
            let count = requests[from * DUES + to];
            if count > 0 {
                let label = format!("{role}: {} < {}", due(to), made(from));
                collected.items.push(EvidenceItem::labelled("resched_requests", label, "1", count as f64));
                all += count;
            }
        }
        for (to, ns) in times.iter().enumerate().filter(|(_, ns)| **ns > 0) {
            let label = format!("{role}: {}", due(to));
            collected.items.push(EvidenceItem::labelled("resched_request_s", label, "s", *ns as f64 / 1e9));
        }
    }
    if all == 0 {
        collected.items.push(EvidenceItem::absent("resched_requests", "1", "no request to reschedule came due"));
    }
    Ok(all)
}
