//! Page faults of the tasks under test: how long, what kind, and whether a lock was held.

use crate::kernel;
use crate::kernel::{FAULTS as KINDS_OF_FAULTS, HISTOGRAM_FAULT, KernelCollector, SECTION_FAULT, Seen, Wants};
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
           A huge fault brought a page of 2 MB or more, whether or not it had to wait: what the process has of memory \
           grew by so much between its begin and its end (mm_struct.hugetlb_usage for hugetlbfs; rss_stat, the sum that \
           CPUs add to, for transparent huge pages, on at most 100 CPUs). It is told as huge, not as minor or major. Huge \
           pages smaller than 2 MB and the huge page of zeros are not told; and a fault of one thread counts as huge that \
           happens while another one of its process maps a huge page.\n\n\
           With `critical-sections` beside it, faults of a task that held a lock are told by the lock: the user \
           instruction pointer at the fault is looked up in the section map.\n\n\
           Needs root (or CAP_BPF and CAP_PERFMON) and a kernel with BTF, 5.15 or later; x86-64.",
    references: &[
        "arch/x86/mm/fault.c:exc_page_fault, trace_page_fault_user (v6.18); X86_PF_PROT",
        "mm/memory.c:mm_account_fault, set_pte_range; mm/huge_memory.c:map_anon_folio_pmd (v6.18)",
        "mm/hugetlb.c:hugetlb_no_page, hugetlb_count_add; lib/percpu_counter.c:percpu_counter_add_batch (v6.18)",
    ],
};

const PRODUCES: Produces = &[
    ("faults", "1", "page faults, by role and kind: minor, major, huge"),
    ("fault_s", "s", "time in page faults, by role"),
    ("first_touch", "1", "faults that found no page table entry, by role"),
    ("fault_in_section", "1", "faults of a task that held a lock, by section"),
    ("fault_in_section_s", "s", "time in faults of tasks that held a lock, by section"),
];

/// In the order of faults.bpf.h.
const KINDS: [&str; KINDS_OF_FAULTS] = ["minor", "major", HUGE];
const HUGE: &str = "huge";
/// Huge pages that may not be told, and why.
const NOT_TOLD: [(&str, &str); 2] = [
    ("huge pages of hugetlbfs", "this kernel keeps no account of them for a process (CONFIG_HUGETLB_PAGE)"),
    (
        "transparent huge pages",
        "on so many CPUs, or in the form that this kernel has it, what a process has of memory does not tell them",
    ),
];

fn told(seen: &Seen) -> Collected {
    let mut collected = Collected { collector: META.id.to_owned(), ..Collected::default() };
    for role in &seen.roles {
        for (kind, count) in KINDS.iter().zip(role.faults) {
            let label = format!("{}: {kind}", role.role);
            if *kind == HUGE && seen.not_known.iter().all(|n| *n > 0) {
                let why = NOT_TOLD.map(|(_, why)| why).join("; ");
                collected.items.push(EvidenceItem { label: Some(label), ..EvidenceItem::absent("faults", "1", why) });
                continue;
            }
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
    for ((what, why), _) in NOT_TOLD.iter().zip(seen.not_known).filter(|(_, n)| *n > 0) {
        collected.coverage.notes.push(format!("{what} are counted as small ones: {why}"));
    }
    collected.cost = kernel::cost(seen, &mut collected.coverage);
    collected
}

fn push(into: &mut Collected, name: &str, label: &str, histogram: Option<&SparseHistogram>) {
    if let Some(histogram) = histogram.filter(|h| h.count() > 0) {
        let (name, label) = (name.to_owned(), Some(label.to_owned()));
        into.histograms.push(EvidenceHistogram { name, label, histogram: histogram.clone() });
    }
}
