/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* Events one by one, until the ring is full. */
#pragma once
#include "state.h"

enum event_kind { EVENT_SWITCH, EVENT_WAKEUP, EVENT_FAULT };
SHARED(enum, event_kind);

struct event {
	u64 ns;
	/* Of a fault: how long it took. */
	u64 length_ns;
	/* The task that left, was woken up or had a fault; and the task that arrived or woke it up. */
	u32 tid[2];
	u32 pid[2];
	char comm[2][COMM];
	u32 cpu;
	/* What the account has of a task that goes to sleep: the wait event, and the system call. */
	u32 wait_event;
	u32 syscall;
	u16 section;
	u8 kind;
	u8 out_state;
	u8 cause;
	u8 held;
	u8 role;
	u8 is_accounted;
	u8 unused[4];
};
SHARED(struct, event);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

INLINE void event_task(struct event *e, u32 which, struct task_struct *task)
{
	e->tid[which] = task->pid;
	e->pid[which] = task->tgid;
	bpf_probe_read_kernel(e->comm[which], COMM, task->comm);
}

INLINE struct event *new_event(u32 kind, u64 ns, struct counts *c)
{
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		__sync_fetch_and_add(&c->events_lost, 1);
		return NULL;
	}
	e->ns = ns;
	e->length_ns = 0;
	e->cpu = bpf_get_smp_processor_id();
	e->kind = kind;
	e->section = 0;
	/* What is not watched has left for unknown reasons. */
	e->out_state = 0xff;
	e->cause = CAUSE_OTHER;
	e->held = NEITHER;
	e->wait_event = 0;
	e->syscall = 0;
	e->role = 0;
	e->is_accounted = 0;
	return e;
}

INLINE void event_switch(struct task_struct *prev, struct task_struct *next, struct task_state *from, u64 now,
			 struct counts *c)
{
	struct event *e = new_event(EVENT_SWITCH, now, c);

	if (!e)
		return;
	event_task(e, 0, prev);
	event_task(e, 1, next);
	if (from) {
		e->out_state = from->out_state;
		e->cause = from->cause;
		e->held = want_sections ? from->held : NEITHER;
		e->section = from->section;
		e->role = from->role;
		/* The account leaves workers of the kernel out. */
		if (want_account && !from->is_kernel_worker) {
			e->wait_event = from->wait_event;
			e->syscall = from->syscall;
			e->is_accounted = 1;
		}
	}
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

INLINE void event_wakeup(struct task_struct *task, u64 now)
{
	u32 here = shard();
	struct counts *c = my_counts(here);
	struct event *e = c ? new_event(EVENT_WAKEUP, now, c) : NULL;

	if (!e)
		return;
	event_task(e, 0, task);
	event_task(e, 1, bpf_get_current_task_btf());
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

INLINE void event_fault(struct task_struct *task, struct task_state *state, u64 length_ns, struct counts *c)
{
	struct event *e = new_event(EVENT_FAULT, state->fault_begin_ns, c);

	if (!e)
		return;
	e->length_ns = length_ns;
	event_task(e, 0, task);
	e->tid[1] = 0;
	e->pid[1] = 0;
	__builtin_memset(e->comm[1], 0, COMM);
	if (want_sections) {
		e->held = state->fault_held;
		e->section = state->fault_section;
	}
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}
