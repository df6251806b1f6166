/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* Page faults of watched tasks: how long, what kind, and whether a lock was held. */
#pragma once
#include "state.h"
#include "../critical_sections/sections.bpf.h"
#include "../timeline/timeline.bpf.h"

enum { PAGES_HUGETLB, PAGES_RSS };

/* A slice: faults that begin are timed. Then those that have begun may end; others that begin are not. Else nothing is. */
enum timing { TIMING_NOTHING, TIMING_BEGINS, TIMING_ENDS, TIMINGS };
SHARED(enum, timing);

/* The number of the slice times TIMINGS, and which of these it is now. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} fault_timing SEC(".maps");

INLINE u32 fault_timing_now(void)
{
	u32 zero = 0, *now = bpf_map_lookup_elem(&fault_timing, &zero);

	return now ? *now : TIMING_NOTHING;
}

/* A fault during which the process grows by this number of pages brings a huge one. Such a page has 512, and they reach
 * the sum together; of small ones a fault brings 16 at most (fault around), and with them comes what the CPU had not added up, which is less
 * than the batch of its counter (lib/percpu_counter.c: 32, or two for each CPU). */
#define HUGE_GROWTH 256

/* What the process has of memory of hugetlbfs, and of all other; -1 where this kernel does not count it. */
INLINE void read_pages(struct task_struct *task, s64 *pages)
{
	struct mm_struct *mm = task->mm;
	struct mm_struct___one_sum *one_sum = (void *)mm;
	struct mm_struct___hugetlb *hugetlb = (void *)mm;

	pages[PAGES_HUGETLB] = -1;
	pages[PAGES_RSS] = -1;
	if (!mm)
		return;
	if (has_field(hugetlb->hugetlb_usage))
		pages[PAGES_HUGETLB] = hugetlb->hugetlb_usage.counter;
	if (!counts_transparent)
		return;
	if (has_field(mm->rss_stat[0].count))
		pages[PAGES_RSS] = mm->rss_stat[MM_FILEPAGES].count + mm->rss_stat[MM_ANONPAGES].count +
				   mm->rss_stat[MM_SHMEMPAGES].count;
	else if (has_field(one_sum->rss_stat.count)) {
		/* The checker of 6.1 does not follow an array of a typedef (kernel/bpf/btf.c, btf_struct_walk). */
		s64 counts[NR_MM_COUNTERS] = {};

		bpf_probe_read_kernel(counts, sizeof(counts), &one_sum->rss_stat.count);
		pages[PAGES_RSS] = counts[MM_FILEPAGES] + counts[MM_ANONPAGES] + counts[MM_SHMEMPAGES];
	}
}

/* Whether the fault that ends brought a huge page: of other threads of the process that do at the same moment, too. */
INLINE u32 brought_huge(struct task_struct *task, struct task_state *state, struct counts *c)
{
	s64 pages[2];
	u32 is_huge = 0;

	read_pages(task, pages);
	for (int i = 0; i < 2; i++) {
		if (pages[i] == -1)
			__sync_fetch_and_add(&c->unknown_huge[i], 1);
		else if (pages[i] - state->fault_begin_pages[i] >= HUGE_GROWTH)
			is_huge = 1;
	}
	return is_huge;
}

INLINE void fault_begins(u32 is_first)
{
	u32 timing = samples_faults ? fault_timing_now() : TIMING_BEGINS;
	struct task_struct *task;
	struct task_state *state;

	if (timing % TIMINGS == TIMING_NOTHING)
		return;
	task = bpf_get_current_task_btf();
	state = state_of(task);
	if (!state)
		return;
	if (timing % TIMINGS == TIMING_ENDS) {
		state->fault_begin_ns = 0;
		return;
	}
	state->fault_slice = timing / TIMINGS;
	state->fault_begin_ns = bpf_ktime_get_ns();
	state->fault_held = NEITHER;
	read_pages(task, state->fault_begin_pages);
	state->fault_is_first = is_first;
	if (want_sections && image_of(state, task) != IMAGE_NONE) {
		struct found found = classify(state, (void *)bpf_task_pt_regs(task));

		state->fault_held = found.held;
		state->fault_section = found.section;
	}
}

/* page_fault_user(address, regs, error_code): bit 0 is off when there was no page table entry (X86_PF_PROT). */
SEC("tp_btf/page_fault_user")
int user_fault_begins(u64 *ctx)
{
	fault_begins(!(ctx[2] & 1));
	return 0;
}

/* page_fault_kernel(address, regs, error_code): the kernel touches memory of the task. */
SEC("tp_btf/page_fault_kernel")
int kernel_fault_begins(u64 *ctx)
{
	fault_begins(!(ctx[2] & 1));
	return 0;
}

/* Where there are no such tracepoints: the software event of all faults, which is counted before one is handled. */
SEC("perf_event")
int counted_fault_begins(void *ctx)
{
	fault_begins(0);
	return 0;
}

/* The software events of faults are counted where the handler ends (mm/memory.c:mm_account_fault). */
INLINE void fault_ends(u32 kind)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state = state_of(task);
	u64 now, ns, role;
	u32 index;
	struct counts *c;

	if (!state || !state->fault_begin_ns)
		return;
	if (samples_faults && state->fault_slice != fault_timing_now() / TIMINGS)
		return;
	now = bpf_ktime_get_ns();
	ns = now - state->fault_begin_ns;
	role = role_of(state);
	if ((s64)ns < 0)
		return;
	index = shard();
	c = my_counts(index);
	if (!c)
		return;
	if (want_timeline)
		event_fault(task, state, ns, c);
	state->fault_begin_ns = 0;
	/* The task may be interrupted here by a switch that counts into the same shard: all counts are atomic. */
	if (brought_huge(task, state, c))
		kind = FAULT_HUGE;
	__sync_fetch_and_add(&c->faults[role][kind], 1);
	__sync_fetch_and_add(&c->fault_ns[role], ns);
	if (state->fault_is_first)
		__sync_fetch_and_add(&c->first_touch[role], 1);
	record((index * roles + role) * HISTOGRAMS + HISTOGRAM_FAULT, ns, 1);
	if (want_sections && state->fault_held == HOLDER) {
		struct section_counts *s;

		index = state->fault_section;
		s = bpf_map_lookup_elem(&section_counts, &index);
		if (s) {
			__sync_fetch_and_add(&s->faults, 1);
			__sync_fetch_and_add(&s->fault_ns, ns);
			record_section(index * SECTION_HISTOGRAMS + SECTION_FAULT, ns);
		}
	}
}

SEC("perf_event")
int minor_fault_ends(void *ctx)
{
	fault_ends(FAULT_MINOR);
	return 0;
}

SEC("perf_event")
int major_fault_ends(void *ctx)
{
	fault_ends(FAULT_MAJOR);
	return 0;
}
