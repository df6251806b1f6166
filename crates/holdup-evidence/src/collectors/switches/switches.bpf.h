/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* Why a runnable task left the CPU, and which task took it. */
#pragma once
#include "state.h"
#include "entries.h"

struct pair {
	char victim[COMM];
	char by[COMM];
};
SHARED(struct, pair);

struct pair_counts {
	u64 times;
	u64 off_cpu_ns;
};
SHARED(struct, pair_counts);

/* Preempters and victims, by name. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct pair);
	__type(value, struct pair_counts);
} preempted_by SEC(".maps");

/* Nonzero while this CPU is in its scheduler tick. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} in_tick SEC(".maps");

/* Frames between this program and its cause: the program, its trampoline, __resched_curr, resched_curr_lazy. */
#define ASKING_FRAMES 7

/* Where the call from that code left its return address: within this part of the stack from the program's context
 * on, which lies in the frame of its trampoline. Read in chunks. */
#define ASKING_BYTES 768
#define ASKING_CHUNK 16

/* Where in this part, as far as that is known: the frames up to there are the same for all that ask, until another program is attached
 * to the function. To follow the stack takes some microseconds, in the way of the task that was woken; to look at two words a
 * tenth of that. */
struct asking {
	/* The return address below it, in the code that asks, which shows that the frames are the same. */
	u64 below;
	/* Bytes from the context, 0 where they are not known. */
	u32 below_at;
	u32 at;
	/* Where to look for it next. */
	u32 next;
	/* For how many requests the word there said the same as the stack, by whether the task was charged. */
	u32 agreed[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct asking);
} asking SEC(".maps");

/* How often it has to agree before it is believed; then it is checked for one request in ASKING_CHECKED. */
#define ASKING_AGREED 8
#define ASKING_CHECKED 64

INLINE u32 charges(u64 address)
{
	return address - charge_begin < charge_length;
}

/* Where an address lies in that part of the stack, from `from` bytes on: this one, or one of the code that charges; 0 where it does
 * not. What is there may be left over from an earlier call. Where the stack ends before, one of that code may be there. */
INLINE u32 found_at(u64 *ctx, u64 address, u32 from)
{
	u64 words[ASKING_CHUNK];

	for (u32 at = 0; at < ASKING_BYTES; at += sizeof(words)) {
		if (bpf_probe_read_kernel(words, sizeof(words), (char *)ctx + at))
			return address ? 0 : ASKING_BYTES;
		for (u32 i = 0; i < ASKING_CHUNK; i++) {
			u64 word = words[i] | signature_bits;

			if ((address ? word == address : charges(word)) && at + i * sizeof(u64) >= from)
				return at + i * sizeof(u64);
		}
	}
	return 0;
}

/* The return address into the code that charges, 0 where a task is asked for another reason; and the one below it. */
INLINE u64 charged_from(u64 *ctx, u64 *below)
{
	u64 stack[ASKING_FRAMES] = {};

	if (!found_at(ctx, 0, 0))
		return 0;
	bpf_get_stack(ctx, stack, sizeof(stack), 0);
	for (int i = 3; i < ASKING_FRAMES; i++) {
		*below = stack[i - 1];
		if (charges(stack[i]))
			return stack[i];
	}
	return 0;
}

/* The word of that part of the stack, without a signature. */
INLINE u64 word_at(u64 *ctx, u32 at)
{
	u64 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), (char *)ctx + (at & (1024 - sizeof(word))));
	return word | signature_bits;
}

/* What was learned from a request: `from` and `below` are what the stack says, and a word of it says `is_said`. */
INLINE void learn(u64 *ctx, struct asking *known, u64 from, u64 below, u32 is_said)
{
	u32 is_charged = !!from;

	if (known->at && is_said == is_charged) {
		known->agreed[is_charged] += 1;
	} else if (known->at || is_charged) {
		known->agreed[0] = known->agreed[1] = 0;
		known->next = known->at ? known->at + sizeof(u64) : 0;
		known->at = is_charged ? found_at(ctx, from, known->next) : 0;
		known->below = below;
		/* Read anew: the kernel's checker would follow the second search for each place that the first may find. */
		known->below_at = *(volatile u32 *)&known->at ? found_at(ctx, below, 0) : 0;
	}
}

/* Whether a task just began a new request of time: its deadline was moved to a whole slice away (fair.c:update_deadline). */
INLINE u32 began_slice(struct task_struct *task)
{
	return task->se.deadline - task->se.vruntime == task->se.slice;
}

/* Whether the task is asked because its time was charged and is used up: in the tick, or when the clock is brought forward
 * for another task's sake. A wake-up asks right after it has charged, so the account is the same for both; the
 * caller differs. */
INLINE u32 is_charged(u64 *ctx, struct task_struct *task)
{
	u32 zero = 0, is_believed, is_same, is_said;
	struct asking *known;
	struct counts *c;
	u64 from, below = 0;

	if (!charge_begin)
		return began_slice(task);
	known = bpf_map_lookup_elem(&asking, &zero);
	if (!known)
		return 0;
	is_same = known->at && word_at(ctx, known->below_at) == known->below;
	is_said = is_same && charges(word_at(ctx, known->at));
	is_believed = is_same && known->agreed[0] >= ASKING_AGREED && known->agreed[1] >= ASKING_AGREED;
	if (likely(is_believed) && bpf_get_prandom_u32() % ASKING_CHECKED)
		return is_said;
	from = charged_from(ctx, &below);
	if (is_believed && is_said != !!from) {
		c = my_counts(shard());
		if (c)
			__sync_fetch_and_add(&c->causes_mistaken, 1);
	}
	/* What is not charged says nothing about frames that are not the same. */
	if (is_same || from)
		learn(ctx, known, from, below, is_said);
	return !!from;
}

/* Why the task on a CPU is asked to leave, by CPU. Its run queue is locked whenever this is read or written. */
struct asked {
	/* The task; 0 for none. */
	u32 pid;
	u8 cause;
	u8 flag;
	u8 is_promoted;
	/* With want_requests: where, see enum request, and when. */
	u8 made;
	u64 since_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct asked);
} asked_on SEC(".maps");

/* NULL where this task was not asked. */
INLINE struct asked *asked_of(u32 cpu, struct task_struct *task)
{
	struct asked *asked = has_resched ? bpf_map_lookup_elem(&asked_on, &cpu) : NULL;

	return asked && asked->pid == (u32)task->pid ? asked : NULL;
}

INLINE void comes_unasked(u32 cpu)
{
	struct asked *asked = has_resched ? bpf_map_lookup_elem(&asked_on, &cpu) : NULL;

	if (asked)
		asked->pid = 0;
}

INLINE int asks(u64 *ctx, struct task_struct *task, u32 cpu, u8 flag)
{
	u32 zero = 0, pid = task->pid, *tick;
	struct asked *asked = bpf_map_lookup_elem(&asked_on, &cpu);

	if (!pid || !asked)
		return 0;
	if (asked->pid == pid) {
		/* Asked again for good: the lazy request, whose flag has the higher number on each architecture, was still there
		 * at a tick, and now it counts in the kernel as well (core.c:sched_tick). */
		if (flag < asked->flag)
			asked->is_promoted = 1;
		return 0;
	}
	tick = bpf_map_lookup_elem(&in_tick, &zero);
	asked->pid = pid;
	asked->cause = (tick && *tick) || is_charged(ctx, task) ? CAUSE_SLICE : CAUSE_WAKEUP;
	asked->flag = flag;
	asked->is_promoted = 0;
	if (want_requests) {
		asked->since_ns = bpf_ktime_get_ns();
		asked->made = cpu != bpf_get_smp_processor_id() ? MADE_ELSEWHERE :
			      asked->cause == CAUSE_SLICE	? MADE_AT_SLICE_END :
								  MADE_HERE + entered_for(ctx);
	}
	return 0;
}

/* __resched_curr(rq, tif): the task on that CPU is asked to leave, in the waker's context, or in the tick. */
SEC("fentry/__resched_curr")
int asked_to_leave(u64 *ctx)
{
	struct rq *rq = (void *)ctx[0];

	return asks(ctx, rq->curr, rq->cpu, ctx[1]);
}

/* sched_set_need_resched(tsk, cpu, tif), where no program can be at the function (load.rs:AskedAt). */
SEC("tp_btf/sched_set_need_resched")
int set_need_resched(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];

	/* At the function this is not known: the task comes out of the run queue there, which is no key. */
	return task->pid && state_of(task) ? asks(ctx, task, ctx[1], ctx[2]) : 0;
}

/* hrtimer_expire_entry(timer, now) and hrtimer_expire_exit(timer): the tick is a timer with its own function. fentry
 * at the tick itself would be simpler, and is refused on some kernels. */
SEC("tp_btf/hrtimer_expire_entry")
int timer_begins(u64 *ctx)
{
	struct hrtimer *timer = (void *)ctx[0];
	u32 zero = 0, *tick;

	if ((u64)timer->function != tick_function)
		return 0;
	tick = bpf_map_lookup_elem(&in_tick, &zero);
	if (tick)
		*tick = 1;
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int timer_ends(u64 *ctx)
{
	u32 zero = 0, *tick = bpf_map_lookup_elem(&in_tick, &zero);

	if (tick)
		*tick = 0;
	return 0;
}

/* Why `prev`, which is runnable, gives way to `next`. */
INLINE u32 cause_of(struct task_state *state, struct asked *asked, struct task_struct *prev, struct task_struct *next, u64 now, struct counts *c)
{
	if (state->out_state == OUT_THROTTLED)
		return CAUSE_THROTTLED;
	if (next->pid && next->prio < MAX_RT_PRIO && prev->prio >= next->prio)
		return CAUSE_CLASS;
	if (has_resched) {
		if (!asked)
			return CAUSE_OTHER;
		if (state->out_state == OUT_KERNEL && asked->is_promoted)
			return CAUSE_PROMOTED;
		return asked->cause;
	}
	/* Without that program: a task that ran for a whole slice was at its end. */
	add(&c->inferred, 1);
	if (!next->pid)
		return CAUSE_OTHER;
	if (has_field(prev->se.slice))
		return began_slice(prev) || (state->on_since_ns && now - state->on_since_ns >= prev->se.slice) ?
			       CAUSE_SLICE : CAUSE_WAKEUP;
	return state->on_since_ns && now - state->on_since_ns >= 3000000 ? CAUSE_SLICE : CAUSE_WAKEUP;
}

/* The request that a task leaves for came due. */
INLINE void count_request(u64 *ctx, struct task_state *state, struct asked *asked, u64 now, struct counts *c)
{
	u32 due = entered_for(ctx) + (state->out_state == OUT_KERNEL ? ENTRIES : 0);
	u64 role = role_of(state);

	add(one_of(c->requests[role], asked->made * DUES + due, REQUESTS), 1);
	if (now > asked->since_ns)
		add(one_of(c->request_ns[role], due, DUES), now - asked->since_ns);
}

/* A preempted task is back after `off_ns`. */
INLINE void count_pair(struct task_state *state, struct task_struct *task, u64 off_ns, struct counts *c)
{
	struct pair pair;
	struct pair_counts *known, one = { .times = 1, .off_cpu_ns = off_ns };

	__builtin_memcpy(pair.by, state->by, COMM);
	__builtin_memset(pair.victim, 0, COMM);
	bpf_probe_read_kernel(pair.victim, COMM, task->comm);
	known = find_named(&preempted_by, &pair, pair.by, NAMED_PAIRS, state->by_tgid);
	if (likely(known)) {
		__sync_fetch_and_add(&known->times, 1);
		__sync_fetch_and_add(&known->off_cpu_ns, off_ns);
	} else if (bpf_map_update_elem(&preempted_by, &pair, &one, BPF_NOEXIST)) {
		add(&c->matrix_full, 1);
	}
}
