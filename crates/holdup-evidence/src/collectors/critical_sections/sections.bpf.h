/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* Holder, waiter or neither: from the user instruction pointer and the section table of the task's image. */
#pragma once
#include "state.h"
#include "entries.h"

#define DEPTH 6

enum section_table {
	/* A meaning that holds for all values of registers; else an offset in struct pt_regs. */
	ALWAYS = 0xffff,
	/* How the address of a lock's word shows: not, by no register, and it has none: all of the section are one. */
	WORD_UNKNOWN = 0xfffe,
	WORD_FIXED = 0xfffd,
	WORD_OF_SECTION = 0xfffc,
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
	/* The lock's word lies at `word_reg` (an offset in struct pt_regs) plus this, or at what is stored there plus `word_load`. Of a
	 * CALLEE: a byte for each register of struct saved, how many times 8 bytes below its caller's stack pointer it is kept;
	 * and where that pointer is, from reg on. */
	u64 word_at;
	u64 word_load;
	u16 section;
	u16 reg;
	u16 word_reg;
	u8 held; /* HOLDER, WAITER or CALLEE: then value is where the return address lies, from reg on */
	u8 differs;
	u8 word_loads;
	/* Of a CALLEE: enum returns. */
	u8 returns;
	u8 unused[6];
};

/* Where the return address is: on the stack; in its register; there, and the function has nothing to do but to return. */
enum returns { RETURNS_BY_STACK, RETURNS_BY_REGISTER, RETURNS_ONLY };
SHARED(enum, returns);

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
	/* Holders that are off the CPU now, of locks whose addresses are not known. */
	s64 unknown_off_cpu;
};
SHARED(struct, image);

/* A lock that several tasks know: its word's address, or the number of the section plus 1. */
struct lock {
	u64 word;
	u32 image;
	u32 unused;
};

/* Holders of it that are off the CPU now, and the section of the last one. */
struct off_cpu {
	s64 holders;
	u64 section;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct lock);
	__type(value, struct off_cpu);
} off_cpu_holders SEC(".maps");

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
	known = find_named(&holder_preempted_by, &key, key.by, NAMED_PREEMPTERS, state->by_tgid);
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

/* The number of the system call that a task is in; negative in none, also of a task that may not be in the kernel. */
INLINE s32 syscall_number_of(void *regs)
{
	s32 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), (char *)regs + regs_syscall);
	return number;
}

/* Whether any entry may cover an address (`crates/holdup-evidence/src/kernel/lines.rs` sets the bits). */
INLINE u32 may_have_entry(struct section_filter *lines, u64 ip)
{
	u64 line = ((ip >> LINE_BYTES_LOG2) * 0x9e3779b97f4a7c15ull) >> (64 - FILTER_BITS_LOG2);

	return lines->bits[line / 64] >> (line % 64) & 1;
}

/* The entry that covers an address. */
CHECKED_ONCE u32 entry_of(u64 ip, u32 first, u32 count)
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
	/* Which lock; 0 where that is not known. */
	u64 word;
	u16 section;
	u8 held;
	u8 stack_failed;
};

/* Registers that functions keep for their callers, as they lie in struct pt_regs from regs_saved on; where each is kept, 0 for
 * those that are still in the register. */
#define SAVED 6
struct saved {
	u64 at[8];
};

/* A function that is left upwards has kept these. */
INLINE void keep_saved(struct saved *saved, u64 times, u64 callers_sp)
{
	for (u32 i = 0; i < SAVED; i++, times >>= 8) {
		if (times & 0xff)
			saved->at[i] = callers_sp - 8 * (times & 0xff);
	}
}

/* Which lock: its address. `is_own`: whether the registers are those of the function that the task is in. */
INLINE u64 word_of(struct meaning *m, void *regs, struct saved *saved, u64 sp, u32 is_own)
{
	u64 word = m->word_at;

	if (m->word_reg == WORD_OF_SECTION)
		return m->section + 1;
	if (m->word_reg == WORD_UNKNOWN)
		return 0;
	if (m->word_reg == regs_sp)
		word += sp;
	else if (m->word_reg != WORD_FIXED) {
		u32 which = (m->word_reg - regs_saved) / 8;
		u64 value, at = saved->at[which & 7];

		/* Those that calls do not keep are gone. */
		if (!is_own && which >= SAVED)
			return 0;
		if (is_own || !at)
			value = register_of(regs, m->word_reg);
		else if (bpf_probe_read_user(&value, sizeof(value), (void *)at))
			return 0;
		word += value;
	}
	if (!m->word_loads)
		return word;
	if (bpf_probe_read_user(&word, sizeof(word), (void *)word))
		return 0;
	return word + m->word_load;
}

/* What the task with these user registers holds or waits for. */
INLINE struct found classify(struct task_state *state, void *regs)
{
	struct found found = { .at = 0, .word = 0, .section = 0, .held = NEITHER, .stack_failed = 0 };
	u32 image_index = state->image;
	struct image *image = bpf_map_lookup_elem(&images, &image_index);
	struct section_filter *lines = bpf_map_lookup_elem(&section_filter, &image_index);
	struct saved saved = {};
	u32 is_own = 1;
	u64 ip, sp;

	if (!image || !lines || !image->count)
		return found;
	ip = fixed_register_of(regs, regs_ip);
	if (ip < image->begin || ip >= image->end || likely(!may_have_entry(lines, ip)))
		return found;
	sp = fixed_register_of(regs, regs_sp);
	for (int depth = 0; depth < DEPTH; depth++) {
		struct entry *e;
		struct meaning *callee = NULL;
		u32 index, returns;
		u64 base;

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
				callee = m;
				break;
			}
			if (m->reg != ALWAYS) {
				/* Registers of callers are gone. */
				if (!is_own)
					continue;
				if (((register_of(regs, m->reg) & m->mask) == m->value) == m->differs)
					continue;
			}
			found.at = ip;
			found.word = word_of(m, regs, &saved, sp, is_own);
			found.section = m->section;
			found.held = m->held;
			return found;
		}
		/* Only the innermost function's frame pointer is known, and only there the return address is in its register. */
		if (!callee || (depth && (callee->reg == regs_bp || callee->returns != RETURNS_BY_STACK)))
			return found;
		returns = callee->returns;
		base = callee->reg == regs_bp ? register_of(regs, regs_bp) : sp;
		if (returns != RETURNS_BY_STACK) {
			ip = fixed_register_of(regs, regs_lr);
		} else if (bpf_probe_read_user(&ip, sizeof(ip), (void *)(base + callee->value))) {
			found.stack_failed = 1;
			return found;
		}
		sp = base + callee->word_load;
		keep_saved(&saved, callee->word_at, sp);
		ip &= ~signature_bits;
		/* The call itself is what the caller is at; of a function that is done, the caller has the same registers. */
		is_own = returns == RETURNS_ONLY;
		if (!is_own)
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

/* What is declared as a section is one lock in all programs that have it. */
INLINE struct lock lock_known_by(u64 word, u32 image)
{
	struct lock lock = { .word = word, .image = word <= 0xffff ? IMAGE_NONE : image };

	return lock;
}

/* A holder leaves the CPU (1), or is back (-1). */
INLINE void holder_moves(struct task_state *state, s64 by)
{
	struct lock lock = lock_known_by(state->held_word, state->held_image);
	u32 image = state->held_image;
	struct off_cpu *known, one = { .holders = by, .section = state->section };
	struct image *of_image;

	if (!lock.word) {
		of_image = bpf_map_lookup_elem(&images, &image);
		if (of_image)
			__sync_fetch_and_add(&of_image->unknown_off_cpu, by);
		return;
	}
	known = bpf_map_lookup_elem(&off_cpu_holders, &lock);
	if (known) {
		known->section = one.section;
		__sync_fetch_and_add(&known->holders, by);
	} else if (by > 0)
		bpf_map_update_elem(&off_cpu_holders, &lock, &one, BPF_NOEXIST);
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
	holder_moves(state, -1);
	__sync_fetch_and_add(one_of(s->off_cpu_ns, state->context, CONTEXTS), off_ns);
	record_section(index * SECTION_HISTOGRAMS + SECTION_OFF, off_ns);
}

/* A watched task leaves the CPU: what did it hold? Only the current task's registers are at hand. */
INLINE void section_leaves(u64 *ctx, struct task_state *state, struct task_struct *task, struct counts *c)
{
	void *regs;
	struct found found;
	struct section_counts *s;
	u32 index;

	/* Not every switch is seen: it has been back. */
	if (unlikely(state->held == HOLDER))
		section_arrives(state, 0);
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
	else if (syscall_number_of(regs) >= 0)
		state->context = IN_SYSCALL;
	else
		state->context = IN_FAULT;
	__sync_fetch_and_add(one_of(s->left[found.held == HOLDER ? 0 : 1], state->context, CONTEXTS), 1);
	if (found.held != HOLDER)
		return;
	if (state->context == IN_USER)
		__sync_fetch_and_add(one_of(s->left_after, entered_for(ctx), ENTRIES), 1);
	state->held_word = found.word;
	state->held_image = state->image;
	holder_moves(state, 1);
	if (state->out_state == OUT_USER || state->out_state == OUT_KERNEL || state->out_state == OUT_THROTTLED) {
		__sync_fetch_and_add(one_of(s->cause, state->cause, CAUSES), 1);
		count_preempter(state, c);
	}
}

/* Whether the holder of a waiter's lock is off the CPU. */
INLINE void sample_waiter(struct section_counts *s, u64 word, u32 image)
{
	struct lock lock = lock_known_by(word, image);
	struct image *of_image = bpf_map_lookup_elem(&images, &image);
	struct off_cpu *known = bpf_map_lookup_elem(&off_cpu_holders, &lock);

	if (word && known && known->holders > 0) {
		u32 section = known->section;

		s = bpf_map_lookup_elem(&section_counts, &section);
		if (s)
			__sync_fetch_and_add(&s->samples_behind, 1);
	} else if (!word || (of_image && of_image->unknown_off_cpu > 0))
		__sync_fetch_and_add(&s->samples_unknown, 1);
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
	if (unlikely(state->held == HOLDER))
		section_arrives(state, 0);
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
	if (found.held == WAITER)
		sample_waiter(s, found.word, state->image);
	return 0;
}
