/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* Who ends a wait, and what it did meanwhile. Since the last waiter for the same thing was woken, what is waited for was in the
 * hands of the one that wakes now: that time is charged to what it was off the CPU for, and the rest of it to the waker on a
 * CPU. Before that the task was queued behind others. */
#pragma once
#include "account.bpf.h"

/* What the waker was in. */
enum waker_state {
	WAKER_ON = ACCOUNT_ON,
	/* Something outside of all tasks: a timer, a device. */
	WAKER_INTERRUPT = ACCOUNT_STATES,
	/* A task that is not under test. */
	WAKER_OTHER,
	/* Others had what is waited for. */
	WAKER_QUEUED,
};
SHARED(enum, waker_state);

struct woken_key {
	/* What the task slept for. */
	u32 wait_event;
	u32 syscall;
	/* What its waker was off the CPU for. */
	u32 by_wait_event;
	u32 by_syscall;
	/* The name of a waker that is not under test. */
	char by[COMM];
	u8 role;
	u8 kind;
	u8 state;
	u8 by_role;
	u8 by_kind;
	u8 by_state;
	u8 unused[2];
};
SHARED(struct, woken_key);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct woken_key);
	__type(value, struct account_value);
} woken SEC(".maps");

/* What is waited for: a mutex by process and word; else all of the same wait event or system call are one, and what a waker did
 * is known for less of the time. */
struct waited_for {
	u64 word;
	u32 wait_event;
	u32 syscall;
	u32 tgid;
	u32 role;
};

/* When a waiter for it was last woken. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct waited_for);
	__type(value, u64);
} last_woken SEC(".maps");

/* The moment from which on the waker had what is waited for, as far as that is known. */
INLINE u64 in_hand_since(struct task_struct *task, struct task_state *state, u64 from, u64 now)
{
	struct waited_for what = { .wait_event = state->wait_event, .syscall = state->syscall, .role = state->role };
	u64 *last, before = 0;

	if (state->syscall == FUTEX_LOCK) {
		what.word = state->futex_word;
		what.tgid = task->tgid;
	}
	last = bpf_map_lookup_elem(&last_woken, &what);
	if (last) {
		before = *last;
		*last = now;
	} else {
		bpf_map_update_elem(&last_woken, &what, &now, BPF_ANY);
	}
	if (before > now)
		before = now;
	return before > from ? before : from;
}

INLINE void woken_is_full(void)
{
	struct counts *c = my_counts(shard());

	if (c)
		add(&c->matrix_full, 1);
}

INLINE void charge_woken(struct woken_key *key, u64 ns)
{
	if (!is_added(&woken, key, ns, 0))
		woken_is_full();
}

/* The bits of a count of preemptions that stand for interrupts (include/linux/preempt.h): in a handler, in a softirq. */
#define IN_INTERRUPT 0xfff00u

/* Whether an interrupt wakes. Where the kernel keeps no count in the task, the interrupted one was in user mode or idle; one
 * that was interrupted in a system call is taken for the waker. */
INLINE u32 is_interrupt(struct task_struct *waker)
{
	if (!waker->pid)
		return 1;
	if (has_field(waker->thread_info.preempt_count))
		return (waker->thread_info.preempt_count & IN_INTERRUPT) != 0;
	if (waker->flags & PF_KTHREAD)
		return 0;
	return syscall_number_of((void *)bpf_task_pt_regs(waker)) < 0;
}

/* A time of the waker's off the CPU, as far as it lies within the sleep. */
INLINE u64 within(struct time_off *off, u64 from, u64 until)
{
	u64 begin = off->begin_ns > from ? off->begin_ns : from, end = off->end_ns < until ? off->end_ns : until;

	return end > begin ? end - begin : 0;
}

/* Classes of wait events of sessions and processes that have nothing to do (utils/wait_classes.h, PostgreSQL 15 to 19). */
#define CLASS(event) ((event) >> 24)
#define CLASS_ACTIVITY 0x05
#define CLASS_CLIENT 0x06

/* Whether the task sleeps for what others have: else nothing asks who ends it. */
INLINE u32 waits_for_others(struct task_state *state)
{
	u32 class = CLASS(state->wait_event);

	if (!state->wait_event_at)
		return state->syscall == FUTEX_LOCK;
	return state->wait_event && class != CLASS_ACTIVITY && class != CLASS_CLIENT;
}

/* sched_waking(p): always in the context of the waker. A sleep that an edge of a window cut counts from there on. */
SEC("tp_btf/sched_waking")
int ends_wait(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0], *waker;
	struct task_state *state = state_of(task), *of_waker;
	struct woken_key key = {};
	u64 from, in_hand, now, left;

	if (!state || state->is_kernel_worker || !state->charged_ns || !is_asleep(state) || !waits_for_others(state))
		return 0;
	from = state->charged_ns;
	now = bpf_ktime_get_ns();
	if (now <= from)
		return 0;
	left = now - from;
	waker = bpf_get_current_task_btf();
	key.wait_event = state->wait_event;
	key.syscall = state->syscall;
	key.role = state->role;
	key.kind = state->kind;
	key.state = state->account_state;
	key.by_syscall = NO_SYSCALL;
	if (is_interrupt(waker)) {
		key.by_state = WAKER_INTERRUPT;
		charge_woken(&key, left);
		return 0;
	}
	of_waker = state_of(waker);
	if (!of_waker || of_waker->is_kernel_worker || !of_waker->charged_ns) {
		key.by_state = WAKER_OTHER;
		bpf_probe_read_kernel(key.by, COMM, waker->comm);
		if (!is_added_named(&woken, &key, key.by, NAMED_WOKEN, waker->tgid, left))
			woken_is_full();
		return 0;
	}
	key.by_role = of_waker->role;
	key.by_kind = of_waker->kind;
	in_hand = in_hand_since(task, state, from, now);
	if (in_hand > from) {
		key.by_state = WAKER_QUEUED;
		charge_woken(&key, in_hand - from);
	}
	left = now - in_hand;
	for (u32 i = 0; i < TIMES_OFF; i++) {
		struct time_off *off = &of_waker->times_off[i];
		u64 ns = within(off, in_hand, now);

		if (ns > left)
			ns = left;
		if (!ns)
			continue;
		left -= ns;
		key.by_state = off->state;
		key.by_wait_event = off->wait_event;
		key.by_syscall = off->syscall;
		charge_woken(&key, ns);
	}
	key.by_state = WAKER_ON;
	key.by_wait_event = 0;
	key.by_syscall = NO_SYSCALL;
	charge_woken(&key, left);
	return 0;
}
