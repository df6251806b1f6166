/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* The account: the wall time of each task under test, by state. A task is in one state at each moment; a change of state
 * charges the time since the last one, and so does the edge of a window (cut_tasks), so the states add up to the wall time. */
#pragma once
#include "state.h"

struct account_key {
	/* PostgreSQL's wait event and the number of the system call, of a task that sleeps; NO_SYSCALL in a page fault or at
	 * the user boundary. */
	u32 wait_event;
	u32 syscall;
	u8 role;
	/* MyBackendType of a PostgreSQL process, 0 for others. */
	u8 kind;
	u8 state;
	u8 unused;
};
SHARED(struct, account_key);
enum account_syscall { NO_SYSCALL = 0xffffffff };
SHARED(enum, account_syscall);

struct account_value {
	u64 ns;
	u64 times;
};
SHARED(struct, account_value);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct account_key);
	__type(value, struct account_value);
} account SEC(".maps");

/* What runnable tasks wait behind, by name: tasks that are not under test. */
struct behind_key {
	char by[COMM];
	u8 role;
	u8 kind;
	u8 state;
	u8 unused[5];
};
SHARED(struct, behind_key);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct behind_key);
	__type(value, struct account_value);
} behind SEC(".maps");

/* The thread that was on a CPU for longest in a window. */
struct busiest {
	u64 ns;
	u32 pid;
	u32 tid;
	char comm[COMM];
};
SHARED(struct, busiest);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct busiest);
} busiest SEC(".maps");

/* What each CPU runs. */
struct on_cpu {
	char comm[COMM];
	s32 prio;
	u8 is_idle;
	u8 is_watched;
	u8 unused[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct on_cpu);
} on_cpus SEC(".maps");

INLINE void charge(struct account_key *key, u64 ns, u64 times, struct counts *c)
{
	struct account_value *known = bpf_map_lookup_elem(&account, key), one = { .ns = ns, .times = times };

	if (likely(known)) {
		known->ns += ns;
		known->times += times;
	} else if (bpf_map_update_elem(&account, key, &one, BPF_NOEXIST) && c) {
		__sync_fetch_and_add(&c->account_full_ns, ns);
	}
}

/* The time since the last charge; the next one begins now. */
INLINE u64 since(struct task_state *state, u64 now)
{
	u64 before = __sync_lock_test_and_set(&state->charged_ns, now);

	if (likely(before && now > before))
		return now - before;
	/* Another CPU has charged beyond this moment. */
	if (before > now)
		state->charged_ns = before;
	return 0;
}

INLINE void charge_sleep(struct task_state *state, u64 ns, u64 times, struct counts *c)
{
	struct account_key key = {
		.wait_event = state->wait_event, .syscall = state->syscall, .role = state->role, .kind = state->kind,
		.state = state->account_state,
	};

	charge(&key, ns, times, c);
}

INLINE void charge_behind(struct task_state *state, const char *by, u64 ns, struct counts *c)
{
	struct behind_key key = { .role = state->role, .kind = state->kind, .state = state->account_state };
	struct account_value *known, one = { .ns = ns, .times = 1 };

	bpf_probe_read_kernel(key.by, COMM, by);
	known = bpf_map_lookup_elem(&behind, &key);
	if (likely(known)) {
		known->ns += ns;
		known->times += 1;
	} else if (bpf_map_update_elem(&behind, &key, &one, BPF_NOEXIST)) {
		add(&c->matrix_full, 1);
	}
}

/* Whether the task sleeps, interruptibly or not. */
INLINE u32 is_asleep(struct task_state *state)
{
	return state->account_state >= ACCOUNT_ASLEEP;
}

/* The number in the register of system calls, of a task that may not be in one. */
INLINE u32 syscall_of(s64 number)
{
	return number >= 0 ? (u32)number : NO_SYSCALL;
}

/* Time on a CPU or in a run queue is added up in the task's own state, and by the cut to the others'. */
INLINE void charge_own(struct task_state *state, u64 ns)
{
	u32 of = state->account_state;

	if (of < ACCOUNT_ASLEEP)
		__sync_fetch_and_add(&state->charged[of], ns);
}

/* What a runnable task waits behind, from what its CPU runs. */
INLINE u32 behind_of(struct task_struct *task, u32 is_idle, u32 is_watched, s32 prio)
{
	if (is_idle)
		return ACCOUNT_WAKING;
	if (prio < MAX_RT_PRIO && task->prio >= MAX_RT_PRIO)
		return ACCOUNT_BEHIND_CLASS;
	return is_watched ? ACCOUNT_BEHIND_OWN : ACCOUNT_BEHIND_OTHER;
}

/* Charges time in a run queue to what the task's CPU runs; a task that is throttled waits for nothing else. */
INLINE void charge_wait(struct task_struct *task, struct task_state *state, u32 is_idle, u32 is_watched, s32 prio,
			const char *comm, u64 ns, struct counts *c)
{
	if (state->account_state != ACCOUNT_THROTTLED)
		state->account_state = behind_of(task, is_idle, is_watched, prio);
	charge_own(state, ns);
	if (state->account_state == ACCOUNT_BEHIND_OTHER || state->account_state == ACCOUNT_BEHIND_CLASS)
		charge_behind(state, comm, ns, c);
}

/* What the current task, PostgreSQL's, is and waits for. */
INLINE void read_backend(struct task_state *state)
{
	u64 place = 0;
	u32 event = 0, kind = 0;

	state->wait_event = 0;
	if (!state->wait_event_at)
		return;
	if (!bpf_probe_read_user(&place, sizeof(place), (void *)state->wait_event_at) &&
	    !bpf_probe_read_user(&event, sizeof(event), (void *)place))
		state->wait_event = event;
	if (!state->kind && state->backend_type_at &&
	    !bpf_probe_read_user(&kind, sizeof(kind), (void *)state->backend_type_at) && kind < 64)
		state->kind = kind;
}

INLINE void flush(struct task_state *state, struct counts *c)
{
	struct account_key key = { .role = state->role, .kind = state->kind, .syscall = NO_SYSCALL };

	for (u32 i = 0; i < ACCOUNT_ASLEEP; i++) {
		u64 ns = __sync_lock_test_and_set(&state->charged[i], 0);

		if (!ns)
			continue;
		key.state = i;
		charge(&key, ns, 1, c);
	}
}

INLINE void account_leaves(struct task_struct *prev, struct task_struct *next, struct task_state *state, u32 next_is_watched,
			   u64 now, struct counts *c)
{
	u32 out_state = state->out_state;

	charge_own(state, since(state, now));
	if (out_state == OUT_SLEEPING || out_state == OUT_BLOCKED) {
		void *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

		state->account_state = out_state == OUT_BLOCKED ? ACCOUNT_BLOCKED : ACCOUNT_ASLEEP;
		state->syscall = prev->flags & PF_KTHREAD ? NO_SYSCALL : syscall_of(fixed_register_of(regs, regs_syscall));
		read_backend(state);
	} else if (out_state == OUT_EXITED) {
		state->charged_ns = 0;
		flush(state, c);
	} else {
		state->account_state = out_state == OUT_THROTTLED ?
					       ACCOUNT_THROTTLED :
					       behind_of(prev, !next->pid, next_is_watched, next->prio);
	}
}

INLINE void account_wakes(struct task_struct *task, struct task_state *state, u64 now)
{
	if (!is_asleep(state))
		return;
	charge_sleep(state, since(state, now), 1, my_counts(shard()));
	state->account_state = is_throttled(task) ? ACCOUNT_THROTTLED : ACCOUNT_WAKING;
}

INLINE void account_arrives(struct task_struct *prev, struct task_struct *next, struct task_state *state, u32 prev_is_watched,
			    u64 now, struct counts *c)
{
	u64 ns = since(state, now);

	/* It is asleep where its wake-up was not seen. */
	if (is_asleep(state))
		charge_sleep(state, ns, 1, c);
	else
		charge_wait(next, state, !prev->pid, prev_is_watched, prev->prio, prev->comm, ns, c);
	state->account_state = ACCOUNT_ON;
}

/* At every switch of any task: what this CPU runs from now on. */
INLINE void cpu_runs(struct task_struct *next, u32 is_watched)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct on_cpu *here = bpf_map_lookup_elem(&on_cpus, &cpu);

	if (!here)
		return;
	here->is_idle = !next->pid;
	here->is_watched = is_watched;
	here->prio = next->prio;
	/* Of others no wait is charged to the name. */
	if (next->pid && (!is_watched || next->prio < MAX_RT_PRIO))
		bpf_probe_read_kernel(here->comm, COMM, next->comm);
}

/* The state of a task when watching begins, and where its variables lie. */
INLINE void account_begins(struct task_struct *task, struct task_state *state, u64 wait_event_at, u64 backend_type_at)
{
	u32 of = task->__state;

	state->charged_ns = bpf_ktime_get_ns();
	state->syscall = NO_SYSCALL;
	state->wait_event_at = wait_event_at;
	state->backend_type_at = backend_type_at;
	if (of == TASK_RUNNING || of & TASK_NEW)
		state->account_state = task->on_cpu ? ACCOUNT_ON : is_throttled(task) ? ACCOUNT_THROTTLED : ACCOUNT_WAKING;
	else
		state->account_state = is_blocked(of) ? ACCOUNT_BLOCKED : ACCOUNT_ASLEEP;
	if (is_asleep(state) && !(task->flags & PF_KTHREAD))
		state->syscall = syscall_of(register_of((void *)bpf_task_pt_regs(task), regs_syscall));
}

INLINE u32 cpu_of(struct task_struct *task, struct task_state *state)
{
	if (has_field(task->thread_info.cpu))
		return task->thread_info.cpu;
	return state->cpu;
}

/* The edge of a window: what each task has been doing since its last change of state counts before it. */
SEC("iter/task")
int cut_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_state *state;
	struct busiest *most;
	struct counts *c;
	u32 zero = 0;
	u64 ns;

	if (!task)
		return 0;
	state = state_of(task);
	if (!state || !state->charged_ns)
		return 0;
	c = my_counts(shard());
	if (!c)
		return 0;
	ns = since(state, bpf_ktime_get_ns());
	if (is_asleep(state)) {
		charge_sleep(state, ns, 0, c);
	} else {
		u32 cpu = cpu_of(task, state);
		struct on_cpu *there = bpf_map_lookup_elem(&on_cpus, &cpu);

		if (there && state->account_state != ACCOUNT_ON)
			charge_wait(task, state, there->is_idle, there->is_watched, there->prio, there->comm, ns, c);
		else
			charge_own(state, ns);
	}
	most = bpf_map_lookup_elem(&busiest, &zero);
	if (most && state->charged[ACCOUNT_ON] > most->ns) {
		most->ns = state->charged[ACCOUNT_ON];
		most->pid = task->tgid;
		most->tid = task->pid;
		bpf_probe_read_kernel(most->comm, COMM, task->comm);
	}
	flush(state, c);
	return 0;
}
