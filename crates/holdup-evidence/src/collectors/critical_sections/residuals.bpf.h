/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* How much longer a preempted holder runs until it releases its lock, of a few of them each second. The agent is asked,
 * sets breakpoints at the instructions that release the lock before the holder is on a CPU again, and this object's
 * program runs at the first of them. */
#pragma once
#include "state.h"
#include "sections.bpf.h"

/* The least time between two questions: each costs the agent some system calls. */
#define RESIDUAL_EVERY_NS 50000000ull
/* A question without an answer by then is asked anew. */
#define RESIDUAL_STALE_NS 1000000000ull

enum residual_kind { RESIDUAL_ASKED, RESIDUAL_ENDED };
SHARED(enum, residual_kind);

struct residual_event {
	/* When it left the CPU; when it ended: since when it had been back. */
	u64 ns;
	/* Where it was in the section; when it ended: for how long it had run since. */
	u64 value;
	/* When it left the CPU: the instruction that it resumes at. */
	u64 ip;
	u32 number;
	u32 tid;
	u32 image;
	u16 section;
	u8 kind;
	/* When it ended: whether it was seen to resume. */
	u8 resumed;
};
SHARED(struct, residual_event);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} residuals SEC(".maps");

struct residual_gate {
	u64 next_ns;
	u64 number;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct residual_gate);
} residual_gates SEC(".maps");

INLINE void residual_leaves(struct task_state *state, u64 now)
{
	if (state->residual_back_ns && now > state->residual_since_ns)
		state->residual_on_ns += now - state->residual_since_ns;
}

INLINE void residual_arrives(struct task_state *state, u64 now)
{
	if (!state->residual_back_ns)
		state->residual_back_ns = now;
	state->residual_since_ns = now;
}

/* A holder leaves the CPU. */
INLINE void residual_asks(struct task_state *state, struct task_struct *task, u64 now)
{
	struct residual_gate *gate;
	struct residual_event *e;
	u32 zero = 0;

	if (state->out_state != OUT_USER && state->out_state != OUT_KERNEL)
		return;
	if (state->residual && now - state->residual_asked_ns < RESIDUAL_STALE_NS)
		return;
	gate = bpf_map_lookup_elem(&residual_gates, &zero);
	/* Two CPUs may pass at the same time, which is one more. */
	if (!gate || now < gate->next_ns)
		return;
	gate->next_ns = now + RESIDUAL_EVERY_NS;
	e = bpf_ringbuf_reserve(&residuals, sizeof(*e), 0);
	if (!e)
		return;
	state->residual = (u32)__sync_fetch_and_add(&gate->number, 1) + 1;
	state->residual_asked_ns = now;
	state->residual_back_ns = 0;
	state->residual_on_ns = 0;
	state->residual_resumed = 0;
	state->residual_ip = register_of((void *)bpf_task_pt_regs(bpf_get_current_task_btf()), regs_ip);
	e->ip = state->residual_ip;
	e->ns = now;
	e->value = state->section_at;
	e->number = state->residual;
	e->tid = task->pid;
	e->image = state->image;
	e->section = state->section;
	e->kind = RESIDUAL_ASKED;
	e->resumed = 0;
	bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
}

/* A breakpoint: a thread resumes where it had left the CPU, from where on it counts (the way back to user mode takes longer
 * than many a section), or is about to release its lock. With a result of 1 the kernel removes the breakpoint, which serves
 * once; otherwise each pass would cost an exception until the agent has removed it. */
SEC("perf_event")
int residual_ends(void *ctx)
{
	u64 now = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_state *state = state_of(task);
	struct residual_event *e;

	if (!state || !state->residual || !state->residual_back_ns || now < state->residual_since_ns)
		return 1;
	if (register_of((void *)bpf_task_pt_regs(task), regs_ip) == state->residual_ip) {
		/* A loop may pass it again before the breakpoint is gone. */
		if (!state->residual_resumed) {
			state->residual_resumed = 1;
			state->residual_on_ns = 0;
			state->residual_since_ns = now;
		}
		return 1;
	}
	e = bpf_ringbuf_reserve(&residuals, sizeof(*e), 0);
	if (e) {
		e->ns = state->residual_back_ns;
		e->value = state->residual_on_ns + (now - state->residual_since_ns);
		e->number = state->residual;
		e->tid = 0;
		e->image = 0;
		e->section = state->section;
		e->kind = RESIDUAL_ENDED;
		e->ip = 0;
		e->resumed = state->residual_resumed;
		/* The agent reads it with the next question, or when it looks for holders that do not end. */
		bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	}
	state->residual = 0;
	return 1;
}
