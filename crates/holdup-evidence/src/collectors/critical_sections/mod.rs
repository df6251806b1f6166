//! Holders and waiters of locks at every switch-out, every fault and every sample.

use crate::collectors::resched_requests::ENTRY_NAMES;
use crate::collectors::switches::CAUSE_NAMES;
use crate::kernel::layout::{CONTEXTS, HELD, HOLDER, NEITHER, SECTION_OFF, SectionCounts, WAITER};
use crate::kernel::{At, KernelCollector, OTHERS, Part, Program, SAMPLE_PERIOD_NS, SectionStats, WindowCounts};
use crate::reading::{Produces, histogram};
use aya::programs::perf_event::SoftwareEvent;
use holdup_model::{Collected, EvidenceItem, Meta};
pub(crate) static CRITICAL_SECTIONS: KernelCollector =
    KernelCollector { meta: &META, produces: PRODUCES, part: &PART, report };

static PART: Part = Part {
    switches: &["want_sections"],
    programs: &[Program { name: "section_sample", at: At::Event(SoftwareEvent::CpuClock, SAMPLE_PERIOD_NS) }],
    rings: &[],
};

static META: Meta = Meta {
    id: "critical-sections",
    summary: "holders and waiters of locks that lost the CPU, without uprobes",
    docs: "When a task under test leaves the CPU, and 251 times a second on each CPU, its user instruction pointer is looked \
           up in the section map of its program: instructions between the atomic operation that takes a lock and the \
           store that releases it (holder), and those that wait for it (waiter). Inside a page fault or a system call \
           the pointer is that of the user code that caused it. Between the atomic operation and the branch on its \
           result, the register or flag with the result decides. A function that is called from a section is recognised \
           by its return address. Nothing is put into the program's code. Of at most 20 holders a second that lost \
           the CPU the release of the lock is timed by a hardware breakpoint, a stop of some 50 us; `--no-breakpoints` sets \
           none.\n\n\
           The map is made once for a build (by build id) from the binary itself, stripped or not. Spinlocks of \
           PostgreSQL 15 to 19 are known; of other programs functions that wait in a loop with the instruction `pause`, \
           and callers of pthread_spin_lock. `holdup record --section FUNCTION` adds functions; a binary may declare its \
           sections in a note, as `lock-contention` does.\n\n\
           `waiter_s` is sampled: samples times their period. `waiter_behind_off_cpu_holder_s` are those of them at which \
           a holder of the same lock was off the CPU. A lock is known by the address of its word, which the registers of \
           its holder and of its waiter show, also where they are in different functions. Where they do not, the time is in \
           `waiter_not_known_s`. A declared section is one lock.\n\n\
           x86-64 and arm64. Needs root (or CAP_BPF and CAP_PERFMON) and a kernel with BTF, 5.15 or later.",
    references: &[
        "kernel/sched/core.c:__schedule (v6.18); include/linux/sched/task_stack.h:task_pt_regs",
        "System V ABI, AMD64 supplement 1.0, 3.4.1 (stack), 3.7 (unwinding)",
    ],
};

const PRODUCES: Produces = &[
    ("sections_mapped", "1", "critical sections that are known of the programs under test"),
    ("switch_outs_classified", "1", "switch-outs of processes with a map: holder, waiter, neither"),
    ("holder_switched_out", "1", "times that a holder left the CPU, by section and what it was doing"),
    (
        "holder_left_after",
        "1",
        "times that a holder left at the user boundary, by section and what the kernel was entered for",
    ),
    ("waiter_switched_out", "1", "times that a waiter left the CPU, by section and what it was doing"),
    ("holder_off_cpu_s", "s", "time that holders were off the CPU, by section and what they were doing"),
    ("holder_preempted_by_cause", "1", "times that a runnable holder lost the CPU, by section and cause"),
    (
        "holder_preempted_by",
        "1",
        "times that one took the CPU from a holder, by section and name (section < preempter)",
    ),
    ("section_samples", "samples", "samples of tasks on a CPU, by section and role, and of neither"),
    ("waiter_s", "s", "time that tasks on a CPU waited for a lock, by section, sampled"),
    (
        "waiter_behind_off_cpu_holder_s",
        "s",
        "of it, while the holder of that lock was off the CPU, by the section that holds it",
    ),
    (
        "waiter_not_known_s",
        "s",
        "of it, while a holder was off the CPU whose lock is not known, or the waiter's lock is not",
    ),
];

/// Tasks that are named of those that took the CPU from the holders of a section; the others are added up.
const MOST_PREEMPTERS: usize = 20;

/// In the order of `enum context`.
const CONTEXT_NAMES: [&str; CONTEXTS] = ["user boundary", "in a system call", "in a page fault", "sleeping"];
/// In the order of `enum held`.
const HELD_NAMES: [&str; HELD] = ["holder", "waiter", "neither"];

fn of_section(section: &SectionStats, into: &mut Collected) {
    let SectionStats { name: of, counts: c, .. } = section;
    let period_s = SAMPLE_PERIOD_NS as f64 / 1e9;
    let mut item = |name: &str, what: Option<&str>, unit: &str, value: f64| {
        let label = what.map_or_else(|| of.clone(), |what| format!("{of}: {what}"));
        into.items.push(EvidenceItem::labelled(name, label, unit, value));
    };
    for (context, name) in CONTEXT_NAMES.iter().enumerate() {
        item("holder_switched_out", Some(name), "1", c.left[HOLDER][context] as f64);
        item("waiter_switched_out", Some(name), "1", c.left[WAITER][context] as f64);
        item("holder_off_cpu_s", Some(name), "s", c.off_cpu_ns[context] as f64 / 1e9);
    }
    for (entry, count) in ENTRY_NAMES.iter().zip(c.left_after) {
        item("holder_left_after", Some(entry), "1", count as f64);
    }
    for (cause, count) in CAUSE_NAMES.iter().zip(c.cause) {
        item("holder_preempted_by_cause", Some(cause), "1", count as f64);
    }
    for (held, count) in HELD_NAMES.iter().zip(c.samples) {
        item("section_samples", Some(held), "samples", count as f64);
    }
    item("waiter_s", None, "s", c.samples[WAITER] as f64 * period_s);
    item("waiter_behind_off_cpu_holder_s", None, "s", c.samples_behind as f64 * period_s);
    item("waiter_not_known_s", None, "s", c.samples_unknown as f64 * period_s);
    let (rest, named): (Vec<_>, Vec<_>) = section.preempted_by.iter().partition(|(by, _)| by == OTHERS);
    let others: u64 = named.iter().skip(MOST_PREEMPTERS).chain(&rest).map(|(_, times)| times).sum();
    let named = named.iter().take(MOST_PREEMPTERS).map(|(by, times)| (by.as_str(), *times));
    for (by, times) in named.chain((others > 0).then_some((OTHERS, others))) {
        let label = format!("{of} < {by}");
        into.items.push(EvidenceItem::labelled("holder_preempted_by", label, "1", times as f64));
    }
    into.histograms.extend(histogram("holder_off_cpu_ns", of, section.histograms.get(SECTION_OFF)));
    into.histograms.extend(histogram("section_residual_ns", of, section.residual.as_ref()));
}

fn report(window: &WindowCounts, collected: &mut Collected) -> Result<u64, String> {
    if window.sections.is_empty() {
        let why = "no critical section is known of the programs under test".to_owned();
        return Err(if window.notes.is_empty() { why } else { format!("{why}: {}", window.notes.join("; ")) });
    }
    collected.items.push(EvidenceItem::new("sections_mapped", "1", window.sections.len() as f64));
    for (held, count) in HELD_NAMES.iter().zip(window.counts.classified) {
        collected.items.push(EvidenceItem::labelled("switch_outs_classified", *held, "1", count as f64));
    }
    // Sections without a task in them are counted in `sections_mapped` alone.
    let is_active =
        |c: &SectionCounts| c.left.iter().flatten().chain(&c.samples).chain([&c.samples_behind]).any(|n| *n > 0);
    for section in window.sections.iter().filter(|s| is_active(&s.counts)) {
        of_section(section, collected);
    }
    let neither = window.counts.samples[NEITHER] as f64;
    collected.items.push(EvidenceItem::labelled("section_samples", "neither", "samples", neither));
    Ok(window.counts.classified.iter().sum())
}
