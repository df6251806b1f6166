/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* Holder, waiter or neither: from the user instruction pointer and the section table of the task's image. */
#pragma once
#include "state.h"

#define DEPTH 6

enum section_table {
	/* A meaning that holds for all values of registers; else an offset in struct pt_regs. */
	ALWAYS = 0xffff,
	/* Besides enum held: a function that a section calls. */
	CALLEE = HELD,
	MEANINGS = 4,
	LINE_BYTES_LOG2 = 6,
	FILTER_BITS_LOG2 = 16,
	FILTER_BITS = 1 << FILTER_BITS_LOG2,
};
SHARED(enum, section_table);

/* What one instruction range means, when `reg` (an offset in struct pt_regs) says so. */
struct meaning {
	u64 mask;
	u64 value;
	u16 section;
	u16 reg;
	u8 held; /* HOLDER, WAITER or CALLEE: then value is where the return address lies, from reg on */
	u8 differs;
	u8 unused[2];
};

struct entry {
	u64 begin;
	u64 end;
	struct meaning meaning[MEANINGS];
};
SHARED(struct, entry);

struct image {
	u64 begin;
	u64 end;
	u32 first;
	u32 count;
};
SHARED(struct, image);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct entry);
} section_table SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct image);
} images SEC(".maps");

/* A Bloom filter of the lines of 64 bytes of code that any entry of an image touches: most code is in none, which one look
 * shows instead of a search. Two lines may share a bit, so a bit that is set is no answer yet. */
struct section_filter {
	u64 bits[FILTER_BITS / 64];
};
SHARED(struct, section_filter);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct section_filter);
} section_filter SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct section_counts);
} section_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct histogram);
} section_histograms SEC(".maps");

/* The task that took the CPU from a holder of a section. */
struct section_preempter {
	u32 section;
	char by[COMM];
};
SHARED(struct, section_preempter);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct section_preempter);
	__type(value, u64);
} holder_preempted_by SEC(".maps");

/* A runnable holder lost the CPU to the task whose name its state has. */
INLINE void count_preempter(struct task_state *state, struct counts *c)
{
	struct section_preempter key = { .section = state->section };
	u64 *known, one = 1;

	__builtin_memcpy(key.by, state->by, COMM);
	known = bpf_map_lookup_elem(&holder_preempted_by, &key);
	if (likely(known))
		__sync_fetch_and_add(known, 1);
	else if (bpf_map_update_elem(&holder_preempted_by, &key, &one, BPF_NOEXIST))
		add(&c->matrix_full, 1);
}

INLINE void record_section(u32 index, u64 ns)
{
	struct histogram *h = bpf_map_lookup_elem(&section_histograms, &index);
	u32 bucket = bucket_of(ns);

	if (h && bucket < BUCKETS)
		__sync_fetch_and_add(&h->buckets[bucket], 1);
}

/* A register that is known when the program is checked: read without a call. */
#define fixed_register_of(regs, offset) (*(u64 *)((char *)(regs) + (offset)))

INLINE u64 register_of(void *regs, u32 offset)
{
	u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (char *)regs + offset);
	return value;
}

/* Whether any entry may cover an address (`crates/holdup-evidence/src/kernel/lines.rs` sets the bits). */
INLINE u32 may_have_entry(struct section_filter *lines, u64 ip)
{
	u64 line = ((ip >> LINE_BYTES_LOG2) * 0x9e3779b97f4a7c15ull) >> (64 - FILTER_BITS_LOG2);

	return lines->bits[line / 64] >> (line % 64) & 1;
}

/* The entry that covers an address. */
static __attribute__((noinline)) u32 entry_of(u64 ip, u32 first, u32 count)
{
	u32 low = 0, high = count;

	/* 2^16 entries at most, which the loader holds. */
	for (int i = 0; i < 17; i++) {
		u32 middle, index;
		struct entry *e;

		if (low >= high)
			return 0xffffffff;
		middle = (low + high) / 2;
		index = first + middle;
		e = bpf_map_lookup_elem(&section_table, &index);
		if (!e)
			return 0xffffffff;
		if (ip < e->begin)
			high = middle;
		else if (ip >= e->end)
			low = middle + 1;
		else
			return index;
	}
	return 0xffffffff;
}

struct found {
	/* Where in the section: the instruction, or the call that led out of it. */
	u64 at;
	u16 section;
	u8 held;
	u8 stack_failed;
};

/* What the task with these user registers holds or waits for. */
INLINE struct found classify(struct task_state *state, void *regs)
{
	struct found found = { .at = 0, .section = 0, .held = NEITHER, .stack_failed = 0 };
	u32 image_index = state->image;
	struct image *image = bpf_map_lookup_elem(&images, &image_index);
	struct section_filter *lines = bpf_map_lookup_elem(&section_filter, &image_index);
	u64 ip, sp;

	if (!image || !lines || !image->count)
		return found;
	ip = fixed_register_of(regs, regs_ip);
	if (ip < image->begin || ip >= image->end || likely(!may_have_entry(lines, ip)))
		return found;
	sp = fixed_register_of(regs, regs_sp);
	for (int depth = 0; depth < DEPTH; depth++) {
		struct entry *e;
		u64 at = 0;
		u32 index;

		if (depth && !may_have_entry(lines, ip))
			return found;
		index = entry_of(ip, image->first, image->count);
		if (index == 0xffffffff)
			return found;
		e = bpf_map_lookup_elem(&section_table, &index);
		if (!e)
			return found;
		for (int i = 0; i < MEANINGS; i++) {
			struct meaning *m = &e->meaning[i];

			if (m->held == NEITHER)
				break;
			if (m->held == CALLEE) {
				/* Only the innermost function's rbp is known. */
				if (m->reg == regs_bp && depth)
					return found;
				at = (m->reg == regs_bp ? register_of(regs, regs_bp) : sp) + m->value;
				break;
			}
			if (m->reg != ALWAYS) {
				/* Registers of callers are gone. */
				if (depth)
					continue;
				if (((register_of(regs, m->reg) & m->mask) == m->value) == m->differs)
					continue;
			}
			found.at = ip;
			found.section = m->section;
			found.held = m->held;
			return found;
		}
		if (!at)
			return found;
		if (bpf_probe_read_user(&ip, sizeof(ip), (void *)at)) {
			found.stack_failed = 1;
			return found;
		}
		sp = at + 8;
		/* The call itself is what the caller is at. */
		ip -= 1;
		if (ip < image->begin || ip >= image->end)
			return found;
	}
	return found;
}

/* The image of a task whose process called exec since it was first seen. */
INLINE u32 image_of(struct task_state *state, struct task_struct *task)
{
	if (unlikely(state->image == IMAGE_UNKNOWN)) {
		u32 tgid = task->tgid;
		struct watched *w = bpf_map_lookup_elem(&processes, &tgid);

		if (w && w->image != IMAGE_UNKNOWN)
			state->image = w->image;
		else
			return IMAGE_NONE;
	}
	return state->image;
}

INLINE u64 *one_of(u64 *counts, u32 index, u32 limit)
{
	return &counts[index < limit ? index : limit - 1];
}

/* A watched task leaves the CPU: what did it hold? Only the current task's registers are at hand. */
INLINE void section_leaves(struct task_state *state, struct task_struct *task, struct counts *c)
{
	void *regs;
	struct found found;
	struct section_counts *s;
	u32 index;

	state->held = NEITHER;
	if (image_of(state, task) == IMAGE_NONE)
		return;
	regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	found = classify(state, regs);
	if (found.stack_failed)
		add(&c->unreadable_stack, 1);
	add(one_of(c->classified, found.held, HELD), 1);
	if (found.held > WAITER)
		return;
	index = found.section;
	s = bpf_map_lookup_elem(&section_counts, &index);
	if (!s)
		return;
	state->held = found.held;
	state->section = found.section;
	state->section_at = found.at;
	if (state->out_state == OUT_SLEEPING || state->out_state == OUT_BLOCKED)
		state->context = IN_SLEEP;
	else if (state->out_state == OUT_USER)
		state->context = IN_USER;
	else if ((s64)register_of(regs, regs_syscall) >= 0)
		state->context = IN_SYSCALL;
	else
		state->context = IN_FAULT;
	__sync_fetch_and_add(one_of(s->left[found.held == HOLDER ? 0 : 1], state->context, CONTEXTS), 1);
	if (found.held != HOLDER)
		return;
	__sync_fetch_and_add(&s->off_cpu, 1);
	if (state->out_state == OUT_USER || state->out_state == OUT_KERNEL || state->out_state == OUT_THROTTLED) {
		__sync_fetch_and_add(one_of(s->cause, state->cause, CAUSES), 1);
		count_preempter(state, c);
	}
}

/* A watched task arrives on the CPU after `off_ns`. */
INLINE void section_arrives(struct task_state *state, u64 off_ns)
{
	struct section_counts *s;
	u32 index = state->section;

	if (state->held != HOLDER)
		return;
	state->held = NEITHER;
	s = bpf_map_lookup_elem(&section_counts, &index);
	if (!s)
		return;
	__sync_fetch_and_add(&s->off_cpu, -1);
	__sync_fetch_and_add(one_of(s->off_cpu_ns, state->context, CONTEXTS), off_ns);
	record_section(index * SECTION_HISTOGRAMS + SECTION_OFF, off_ns);
}

/* Sampled on each CPU: is the task in a section, and does it wait behind a holder that is off the CPU? */
SEC("perf_event")
int section_sample(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state;
	struct section_counts *s;
	struct counts *c;
	struct found found;
	u32 index;

	if (!task->pid)
		return 0;
	state = state_of(task);
	if (!state || image_of(state, task) == IMAGE_NONE)
		return 0;
	c = my_counts(shard());
	if (!c)
		return 0;
	found = classify(state, (void *)bpf_task_pt_regs(task));
	add(one_of(c->samples, found.held, HELD), 1);
	if (found.held > WAITER)
		return 0;
	index = found.section;
	s = bpf_map_lookup_elem(&section_counts, &index);
	if (!s)
		return 0;
	__sync_fetch_and_add(&s->samples[found.held == HOLDER ? 0 : 1], 1);
	if (found.held == WAITER && s->off_cpu > 0)
		__sync_fetch_and_add(&s->samples_behind, 1);
	return 0;
}
