//! Page faults of the tasks under test: how long, what kind, and whether a lock was held.

use crate::arch;
use crate::kernel::layout::{FAULTS as KINDS_OF_FAULTS, HISTOGRAM_FAULT, SECTION_FAULT};
use crate::kernel::{At, KernelCollector, Part, Program, WindowCounts};
use crate::reading::{Produces, histogram};
use aya::programs::perf_event::SoftwareEvent;
use holdup_model::{Collected, EvidenceItem, Meta};
pub(crate) static FAULTS: KernelCollector = KernelCollector { meta: &META, produces: PRODUCES, part: &PART, report };

static PART: Part = Part {
    switches: &["want_faults"],
    programs: &[
        Program { name: "minor_fault_ends", at: At::Event(SoftwareEvent::PageFaultsMin, 1) },
        Program { name: "major_fault_ends", at: At::Event(SoftwareEvent::PageFaultsMaj, 1) },
    ],
    rings: &[],
};

static META: Meta = Meta {
    id: "faults",
    summary: "page faults: how long, what kind, under which lock",
    docs: "A BPF program at the tracepoints page_fault_user and page_fault_kernel (arm64 has none: at the software event of \
           all faults, which is counted before one is handled) notes when a page fault of a task under test begins, and another at the software events that count faults (PERF_COUNT_SW_PAGE_FAULTS_MIN and _MAJ) when \
           its handler ended; what the task slept or waited for a CPU in between is part of the time. The entry of the \
           exception and its exit are not. Faults that raise a signal, and those that have to be tried again without end, \
           are not counted. A major fault had to wait for a disk. A first touch found no page table entry (bit 0 of the x86 \
           error code was off; on arm64 that is not known); a write to a page that is mapped for reading only is a fault, but \
           not a first touch.\n\n\
           A huge fault brought a page of 2 MB or more, whether or not it had to wait: what the process has of memory \
           grew by so much between its begin and its end (mm_struct.hugetlb_usage for hugetlbfs; rss_stat, the sum that \
           CPUs add to, for transparent huge pages, on at most 100 CPUs). It counts as huge, not as minor or major. Huge \
           pages smaller than 2 MB and the huge page of zeros count as small; and a fault of one thread counts as huge that \
           happens while another one of its process maps a huge page.\n\n\
           `holdup watch` and `holdup exporter` time the faults that begin in slices of 25 ms, two a second, and count them as of the \
           whole time (`timed_share`), because the events cost each fault a microsecond; in between no program runs at a minor fault. `--all-faults` times all. Minor faults \
           that take more than 10 ms are left out of slices.\n\n\
           With `critical-sections` beside it, faults of a task that held a lock are reported by the lock: the user \
           instruction pointer at the fault is looked up in the section map.\n\n\
           Needs root (or CAP_BPF and CAP_PERFMON) and a kernel with BTF, 5.15 or later, on x86-64 or arm64.",
    references: &[
        "arch/x86/mm/fault.c:exc_page_fault, trace_page_fault_user (v6.18); X86_PF_PROT",
        "arch/arm64/mm/fault.c:do_page_fault (v6.18): PERF_COUNT_SW_PAGE_FAULTS",
        "mm/memory.c:mm_account_fault, set_pte_range; mm/huge_memory.c:map_anon_folio_pmd (v6.18)",
        "mm/hugetlb.c:hugetlb_no_page, hugetlb_count_add; lib/percpu_counter.c:percpu_counter_add_batch (v6.18)",
    ],
};

const PRODUCES: Produces = &[
    ("faults", "1", "page faults, by role and kind: minor, major, huge"),
    ("fault_s", "s", "time in page faults, by role"),
    ("first_touch", "1", "faults that found no page table entry, by role"),
    (
        "timed_share",
        "1",
        "the part of the time in which faults were timed, where that was not all: the others are as of the whole",
    ),
    ("fault_in_section", "1", "faults of a task that held a lock, by section"),
    ("fault_in_section_s", "s", "time in faults of tasks that held a lock, by section"),
];

/// In the order of faults.bpf.h.
const KINDS: [&str; KINDS_OF_FAULTS] = ["minor", "major", HUGE];
const HUGE: &str = "huge";
/// Huge pages that this kernel may not count, and why.
const UNCOUNTED: [(&str, &str); 2] = [
    ("huge pages of hugetlbfs", "this kernel keeps no account of them for a process (CONFIG_HUGETLB_PAGE)"),
    (
        "transparent huge pages",
        "a process's memory does not show them on more than 100 CPUs, or in the form that this kernel counts it in",
    ),
];

fn report(window: &WindowCounts, collected: &mut Collected) -> Result<u64, String> {
    let c = &window.counts;
    match window.faults_timed {
        Some(0.0) => return Err("faults are timed in slices of the time, and none was in this window".to_owned()),
        Some(share) => collected.items.push(EvidenceItem::new("timed_share", "1", share)),
        None => {}
    }
    for (index, role) in window.roles.iter().enumerate() {
        for (kind, count) in KINDS.iter().zip(c.faults[index]) {
            let label = format!("{role}: {kind}");
            if *kind == HUGE && c.unknown_huge.iter().all(|n| *n > 0) {
                let why = UNCOUNTED.map(|(_, why)| why).join("; ");
                collected.items.push(EvidenceItem { label: Some(label), ..EvidenceItem::absent("faults", "1", why) });
                continue;
            }
            collected.items.push(EvidenceItem::labelled("faults", label, "1", count as f64));
        }
        collected.items.push(EvidenceItem::labelled("fault_s", role, "s", c.fault_ns[index] as f64 / 1e9));
        collected.items.push(if arch::PROGRAMS.is_some_and(|known| known.knows_first_touch) {
            EvidenceItem::labelled("first_touch", role, "1", c.first_touch[index] as f64)
        } else {
            let why = "what sees a fault begin on this architecture does not show whether a page table entry was there";
            EvidenceItem { label: Some(role.clone()), ..EvidenceItem::absent("first_touch", "1", why) }
        });
        collected.histograms.extend(histogram("fault_ns", role, window.histogram(index, HISTOGRAM_FAULT)));
    }
    for section in window.sections.iter().filter(|s| s.counts.faults > 0) {
        let (name, count, seconds) =
            (&section.name, section.counts.faults as f64, section.counts.fault_ns as f64 / 1e9);
        collected.items.push(EvidenceItem::labelled("fault_in_section", name, "1", count));
        collected.items.push(EvidenceItem::labelled("fault_in_section_s", name, "s", seconds));
        collected.histograms.extend(histogram("fault_in_section_ns", name, section.histograms.get(SECTION_FAULT)));
    }
    for (name, unit) in [("fault_in_section", "1"), ("fault_in_section_s", "s")] {
        if !window.has_sections {
            let why = "no critical sections were watched (collector critical-sections)";
            collected.items.push(EvidenceItem::absent(name, unit, why));
        } else if window.sections.iter().all(|s| s.counts.faults == 0) {
            collected.items.push(EvidenceItem::new(name, unit, 0.0));
        }
    }
    for ((what, why), _) in UNCOUNTED.iter().zip(c.unknown_huge).filter(|(_, n)| *n > 0) {
        collected.coverage.notes.push(format!("{what} are counted as small ones: {why}"));
    }
    Ok(c.faults.iter().flatten().sum())
}
