/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* Where tasks were while they were off the CPU, and which tasks woke them: samples of that time, with stacks.
 *
 * A time of length d gives d / period samples on average, independently of what came before: its whole periods, and
 * one more with the probability that the rest of it is of a period. So each sample has the weight of a period, and long
 * times are not missed more often. */
#pragma once
#include "state.h"
#include "../critical_sections/sections.bpf.h"

enum stack_sizes { STACK_FRAMES = 64 };
SHARED(enum, stack_sizes);
#define STACK_BYTES 16384
#define STACK_CHUNK 512

enum stack_kind { STACK_OFF, STACK_WAKER, STACK_EXEC, STACK_FORK, STACK_LEFT, STACK_BACK };
SHARED(enum, stack_kind);
enum user_side { USER_NONE, USER_BITS64, USER_OTHER };
SHARED(enum, user_side);

struct stack_sample {
	u64 length_ns;
	u64 weight_ns;
	u64 ip;
	u64 sp;
	u64 bp;
	/* The register of the return address, where a call leaves it in one. */
	u64 lr;
	u32 pid;
	u32 tid;
	/* ROLES for a task that is not watched. */
	u32 role;
	u32 kernel_bytes;
	u32 stack_bytes;
	u32 wait_event;
	u8 kind;
	u8 out_state;
	/* No user side, 64 bits, another. */
	u8 user;
	u8 has_wait_event;
	u8 unused[4];
	char comm[COMM];
	/* Of a waker: the task that it woke. */
	char wakee[COMM];
	u64 kernel[STACK_FRAMES];
};
SHARED(struct, stack_sample);

/* A sample in the ring. */
struct stack_record {
	struct stack_sample sample;
	u8 stack[STACK_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} stack_samples SEC(".maps");

/* Whether the task that arrives on this CPU is to be sampled as soon as it runs. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} to_sample SEC(".maps");

/* The weight of a sample, ns, below 2^32. */
const volatile u64 off_cpu_period_ns = 10000000;
/* Where the tasks of a role have the pointer to what they wait for (PostgreSQL's my_wait_event_info), or 0. */
const volatile u64 wait_event_at[ROLES] = {};

/* The weight of a time in a profile: mostly 0, else whole periods. */
INLINE u64 weight_of(u64 ns)
{
	u64 until = ns + (((u64)bpf_get_prandom_u32() * off_cpu_period_ns) >> 32);

	return until < off_cpu_period_ns ? 0 : until / off_cpu_period_ns * off_cpu_period_ns;
}

INLINE u32 is_waiting(struct task_state *state)
{
	return state->off_since_ns && state->off_since_ns >= state->on_since_ns &&
	       (state->out_state == OUT_SLEEPING || state->out_state == OUT_BLOCKED);
}

/* Before 6.16 no program runs when a task is back. There a switch-out is sampled with a probability that is known before:
 * the longer the task's time since its last one, the more likely, so that a task gives about one sample in ten periods.
 * Its weight is its time by that probability. */
#define SPAN_NS (10 * off_cpu_period_ns)

INLINE void stack_back(struct task_struct *task, struct task_state *state, u64 off_ns, struct counts *c)
{
	struct stack_sample *s;
	u64 gap_ns = state->sample_gap_ns, weight_ns;

	if (likely(!gap_ns))
		return;
	state->sample_gap_ns = 0;
	weight_ns = off_ns / gap_ns * SPAN_NS + off_ns % gap_ns * SPAN_NS / gap_ns;
	s = bpf_ringbuf_reserve(&stack_samples, __builtin_offsetof(struct stack_sample, comm), 0);
	if (!s) {
		__sync_fetch_and_add(&c->stacks_lost, 1);
		__sync_fetch_and_add(&c->stacks_lost_ns, weight_ns);
		return;
	}
	__builtin_memset(s, 0, __builtin_offsetof(struct stack_sample, comm));
	s->kind = STACK_BACK;
	s->tid = task->pid;
	s->length_ns = off_ns;
	s->weight_ns = weight_ns;
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
}

/* A watched task arrives on the CPU after `off_ns`. Its memory cannot be read before it is there. */
INLINE void stack_arrives(struct task_struct *task, struct task_state *state, u32 role, u32 out_state, u64 off_ns,
			  struct counts *c)
{
	u32 zero = 0, *pending;
	u64 weight_ns;

	if (role >= ROLES || out_state >= OUT_STATES)
		return;
	/* As in role_of: the verifier of 6.1 does not know that it was compared. */
	_Static_assert(OUT_STATES <= 8 && __builtin_offsetof(struct counts, off_state_ns[ROLES - 1][8]) <=
		       sizeof(struct counts), "the mask stays inside the counts");
	__asm__ volatile("%0 &= 7" : "+r"(out_state));
	add(&c->off_state_ns[role][out_state], off_ns);
	if (!has_sched_exit) {
		stack_back(task, state, off_ns, c);
		return;
	}
	weight_ns = weight_of(off_ns);
	if (likely(!weight_ns))
		return;
	pending = bpf_map_lookup_elem(&to_sample, &zero);
	if (!pending)
		return;
	state->sample_weight_ns = weight_ns;
	state->sample_length_ns = off_ns;
	*pending = 1;
}

/* The user side of the current task: registers, and the stack from its pointer on as far as it is in memory. */
INLINE void copy_user_side(struct stack_sample *s, struct task_struct *task)
{
	u8 *stack = ((struct stack_record *)s)->stack;
	void *regs;
	u32 copied = 0;

	s->user = USER_NONE;
	s->stack_bytes = 0;
	s->ip = s->sp = s->bp = s->lr = 0;
	if (task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER))
		return;
	regs = (void *)bpf_task_pt_regs(task);
	s->user = USER_OTHER;
	if ((register_of(regs, regs_mode) & mode_mask) != mode_of_64_bits)
		return;
	s->user = USER_BITS64;
	s->ip = register_of(regs, regs_ip);
	s->sp = register_of(regs, regs_sp);
	s->bp = register_of(regs, regs_bp);
	s->lr = register_of(regs, regs_lr);
	for (u32 i = 0; i < STACK_BYTES / STACK_CHUNK; i++) {
		if (bpf_probe_read_user(&stack[i * STACK_CHUNK], STACK_CHUNK, (void *)(s->sp + i * STACK_CHUNK)))
			break;
		copied = (i + 1) * STACK_CHUNK;
	}
	s->stack_bytes = copied;
}

INLINE void copy_wait_event(struct stack_sample *s, struct task_state *state, u32 role)
{
	u64 at, place = 0;
	u32 event = 0;

	s->has_wait_event = 0;
	s->wait_event = 0;
	if (role >= ROLES || state->image == IMAGE_UNKNOWN)
		return;
	at = wait_event_at[role];
	if (!at || bpf_probe_read_user(&place, sizeof(place), (void *)at) ||
	    bpf_probe_read_user(&event, sizeof(event), (void *)place))
		return;
	s->has_wait_event = 1;
	s->wait_event = event;
}

INLINE struct stack_sample *new_stack_sample(u64 *ctx, u32 kind, struct task_struct *task, u64 weight_ns,
					     struct counts *c)
{
	struct stack_sample *s = bpf_ringbuf_reserve(&stack_samples, sizeof(struct stack_record), 0);
	long bytes;

	if (!s) {
		__sync_fetch_and_add(&c->stacks_lost, 1);
		__sync_fetch_and_add(&c->stacks_lost_ns, weight_ns);
		return NULL;
	}
	s->kind = kind;
	s->weight_ns = weight_ns;
	s->pid = task->tgid;
	s->tid = task->pid;
	bpf_probe_read_kernel(s->comm, COMM, task->comm);
	__builtin_memset(s->wakee, 0, COMM);
	__builtin_memset(s->unused, 0, sizeof(s->unused));
	bytes = bpf_get_stack(ctx, s->kernel, sizeof(s->kernel), 0);
	s->kernel_bytes = bytes > 0 ? bytes : 0;
	return s;
}

INLINE void stack_leaves(u64 *ctx, struct task_struct *task, struct task_state *state, u64 before_ns, u64 now,
			 struct counts *c)
{
	struct stack_sample *s;
	u64 gap_ns = before_ns && now > before_ns ? now - before_ns : SPAN_NS;

	state->sample_gap_ns = 0;
	if (gap_ns > SPAN_NS)
		gap_ns = SPAN_NS;
	if (gap_ns < SPAN_NS / 4096)
		gap_ns = SPAN_NS / 4096;
	if (likely((((u64)bpf_get_prandom_u32() * SPAN_NS) >> 32) >= gap_ns))
		return;
	s = new_stack_sample(ctx, STACK_LEFT, task, 0, c);
	if (!s)
		return;
	state->sample_gap_ns = gap_ns;
	s->length_ns = 0;
	s->role = state->role;
	s->out_state = state->out_state;
	copy_user_side(s, task);
	copy_wait_event(s, state, state->role);
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
}

/* A process has other code in memory from now on: its own, or that of the parent that it was forked from. */
INLINE void report_process(u32 kind, u32 pid, u32 parent)
{
	struct stack_sample *s = bpf_ringbuf_reserve(&stack_samples, __builtin_offsetof(struct stack_sample, comm), 0);

	if (!s)
		return;
	__builtin_memset(s, 0, __builtin_offsetof(struct stack_sample, comm));
	s->kind = kind;
	s->pid = pid;
	s->tid = parent;
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
}

/* sched_exit_tp(is_switch): the task that came is the current one, still inside __schedule (core.c, since 6.16). */
SEC("tp_btf/sched_exit_tp")
int task_is_back(u64 *ctx)
{
	u32 zero = 0, *pending = bpf_map_lookup_elem(&to_sample, &zero);
	struct task_struct *task;
	struct task_state *state;
	struct stack_sample *s;
	struct counts *c;

	if (likely(!pending || !*pending))
		return 0;
	*pending = 0;
	task = bpf_get_current_task_btf();
	state = state_of(task);
	if (!state || !state->sample_weight_ns)
		return 0;
	c = my_counts(shard());
	if (!c)
		return 0;
	s = new_stack_sample(ctx, STACK_OFF, task, state->sample_weight_ns, c);
	if (s) {
		s->length_ns = state->sample_length_ns;
		s->role = state->role;
		s->out_state = state->out_state;
		copy_user_side(s, task);
		copy_wait_event(s, state, state->role);
		bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
	}
	state->sample_weight_ns = 0;
	return 0;
}

/* sched_waking(p): always in the context of the waker, while sched_wakeup may run on the CPU of the task that is woken. */
SEC("tp_btf/sched_waking")
int is_waking(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0], *waker;
	struct task_state *state = state_of(task), *of_waker;
	struct stack_sample *s;
	struct counts *c;
	u64 now, weight_ns;

	if (!state || state->is_kernel_worker || !is_waiting(state) || state->waking_of_ns == state->off_since_ns)
		return 0;
	/* Of several tasks that wake it at the same time one is its waker. */
	state->waking_of_ns = state->off_since_ns;
	now = bpf_ktime_get_ns();
	if (now < state->off_since_ns)
		return 0;
	weight_ns = weight_of(now - state->off_since_ns);
	if (likely(!weight_ns))
		return 0;
	c = my_counts(shard());
	if (!c)
		return 0;
	waker = bpf_get_current_task_btf();
	s = new_stack_sample(ctx, STACK_WAKER, waker, weight_ns, c);
	if (!s)
		return 0;
	s->length_ns = now - state->off_since_ns;
	s->out_state = state->out_state;
	s->has_wait_event = 0;
	s->wait_event = 0;
	bpf_probe_read_kernel(s->wakee, COMM, task->comm);
	of_waker = waker->pid ? state_of(waker) : NULL;
	if (of_waker && !of_waker->is_kernel_worker) {
		s->role = of_waker->role;
		copy_user_side(s, waker);
	} else {
		s->role = ROLES;
		s->user = USER_NONE;
		s->stack_bytes = 0;
		s->ip = s->sp = s->bp = s->lr = 0;
	}
	bpf_ringbuf_submit(s, BPF_RB_NO_WAKEUP);
	return 0;
}
