//! Page faults of the tasks under test: how long, what kind, and whether a lock was held.

use crate::kernel;
use crate::kernel::{HISTOGRAM_FAULT, KernelCollector, SECTION_FAULT, Seen, Wants};
use crate::reading::Produces;
use holdup_model::{Collected, EvidenceHistogram, EvidenceItem, Meta, SparseHistogram};

/// The collector.
pub(crate) static FAULTS: KernelCollector =
    KernelCollector { meta: &META, produces: PRODUCES, wants: Wants { faults: true, ..Wants::NONE }, told };

static META: Meta = Meta {
    id: "faults",
    summary: "page faults: how long, what kind, under which lock",
    docs: "A BPF program at the tracepoints page_fault_user and page_fault_kernel notes when a page fault of a task under \
           test begins, and another at the software events that count faults (PERF_COUNT_SW_PAGE_FAULTS_MIN and _MAJ) when \
           its handler ended; what the task slept or waited for a CPU in between is part of the time. The entry of the \
           exception and its exit are not. Faults that raise a signal, and those that have to be tried again without end, \
           are not counted. A major fault had to wait for a disk. A first touch found no page table entry (bit 0 of the x86 \
           error code was off); a write to a page that is mapped for reading only is a fault, but not a first touch.\n\n\
           With `critical-sections` beside it, faults of a task that held a lock are told by the lock: the user \
           instruction pointer at the fault is looked up in the section map.\n\n\
           Needs root (or CAP_BPF and CAP_PERFMON) and a kernel with BTF, 5.15 or later; x86-64.",
    references: &[
        "arch/x86/mm/fault.c:exc_page_fault, trace_page_fault_user (v6.18); X86_PF_PROT",
        "mm/memory.c:mm_account_fault (v6.18)",
    ],
};

const PRODUCES: Produces = &[
    ("faults", "1", "page faults, by role and kind: minor, major"),
    ("fault_s", "s", "time in page faults, by role"),
    ("first_touch", "1", "faults that found no page table entry, by role"),
    ("fault_in_section", "1", "faults of a task that held a lock, by section"),
    ("fault_in_section_s", "s", "time in faults of tasks that held a lock, by section"),
];

/// In the order of faults.bpf.h.
const KINDS: [&str; 2] = ["minor", "major"];

fn told(seen: &Seen) -> Collected {
    let mut collected = Collected { collector: META.id.to_owned(), ..Collected::default() };
    for role in &seen.roles {
        for (kind, count) in KINDS.iter().zip(role.faults) {
            let label = format!("{}: {kind}", role.role);
            collected.items.push(EvidenceItem::labelled("faults", label, "1", count as f64));
        }
        collected.items.push(EvidenceItem::labelled("fault_s", &role.role, "s", role.fault_ns as f64 / 1e9));
        collected.items.push(EvidenceItem::labelled("first_touch", &role.role, "1", role.first_touch as f64));
        push(&mut collected, "fault_ns", &role.role, role.histograms.get(HISTOGRAM_FAULT));
    }
    for section in seen.sections.iter().filter(|s| s.faults > 0) {
        let (count, seconds) = (section.faults as f64, section.fault_ns as f64 / 1e9);
        collected.items.push(EvidenceItem::labelled("fault_in_section", &section.name, "1", count));
        collected.items.push(EvidenceItem::labelled("fault_in_section_s", &section.name, "s", seconds));
        push(&mut collected, "fault_in_section_ns", &section.name, section.histograms.get(SECTION_FAULT));
    }
    if seen.has_sections && seen.sections.iter().all(|s| s.faults == 0) {
        collected.items.push(EvidenceItem::new("fault_in_section", "1", 0.0));
        collected.items.push(EvidenceItem::new("fault_in_section_s", "s", 0.0));
    } else if !seen.has_sections {
        let why = "no critical sections were watched (collector critical-sections)";
        collected.items.push(EvidenceItem::absent("fault_in_section", "1", why));
        collected.items.push(EvidenceItem::absent("fault_in_section_s", "s", why));
    }
    let faults = seen.roles.iter().flat_map(|r| r.faults).sum();
    collected.coverage = kernel::coverage(seen, faults);
    collected.cost = kernel::cost(seen, &mut collected.coverage);
    collected
}

fn push(into: &mut Collected, name: &str, label: &str, histogram: Option<&SparseHistogram>) {
    if let Some(histogram) = histogram.filter(|h| h.count() > 0) {
        let (name, label) = (name.to_owned(), Some(label.to_owned()));
        into.histograms.push(EvidenceHistogram { name, label, histogram: histogram.clone() });
    }
}
