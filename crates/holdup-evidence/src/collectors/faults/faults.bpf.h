/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* Page faults of watched tasks: how long, what kind, and whether a lock was held. */
#pragma once
#include "state.h"
#include "../critical_sections/sections.bpf.h"

enum { FAULT_MINOR, FAULT_MAJOR, FAULT_HUGE };

/* page_fault_user(address, regs, error_code): bit 0 of the code is off when no page was there. */
SEC("tp_btf/page_fault_user")
int fault_from_user(u64 *ctx)
{
	struct task_state *state = state_of(bpf_get_current_task_btf());
	struct counts *c;

	if (!state || ctx[2] & 1)
		return 0;
	c = my_counts(shard());
	if (c)
		__sync_fetch_and_add(one_of(c->first_touch, state->role, ROLES), 1);
	return 0;
}

/* handle_mm_fault(vma, address, flags, regs) */
SEC("fentry/handle_mm_fault")
int fault_begins(u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state = state_of(task);

	if (!state)
		return 0;
	state->fault_begin_ns = bpf_ktime_get_ns();
	state->fault_held = NEITHER;
	if (want_sections && image_of(state, task) != IMAGE_NONE) {
		struct found found = classify(state, (void *)bpf_task_pt_regs(task));

		state->fault_held = found.held;
		state->fault_section = found.section;
	}
	return 0;
}

SEC("fexit/handle_mm_fault")
int fault_ends(u64 *ctx)
{
	struct vm_area_struct *vma = (void *)ctx[0];
	struct task_state *state = state_of(bpf_get_current_task_btf());
	u32 kind = FAULT_MINOR, role, index;
	struct counts *c;
	u64 now, ns;

	if (!state || !state->fault_begin_ns)
		return 0;
	now = bpf_ktime_get_ns();
	ns = now - state->fault_begin_ns;
	state->fault_begin_ns = 0;
	c = my_counts(shard());
	if (!c)
		return 0;
	/* The task may have moved to another CPU inside the fault, and it may be preempted here: all counts are shared. */
	if ((u32)ctx[4] & VM_FAULT_MAJOR)
		kind = FAULT_MAJOR;
	role = state->role;
	if (role >= ROLES)
		return 0;
	__sync_fetch_and_add(&c->faults[role][kind], 1);
	__sync_fetch_and_add(&c->fault_ns[role], ns);
	index = (shard() * roles + role) * HISTOGRAMS + HISTOGRAM_FAULT;
	record(index, ns, 1);
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
	return 0;
}
