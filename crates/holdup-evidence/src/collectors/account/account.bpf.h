/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* The account: the wall time of each task under test, by state. A task is in one state at each moment; a change of state
 * charges the time since the last one, and so does the edge of a window (cut_tasks), so the states add up to the wall time. */
#pragma once
#include "state.h"
#include "../critical_sections/sections.bpf.h"
#include "futex.bpf.h"
#include "../tasks/tasks.bpf.h"

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

/* What is shorter counts as time on a CPU of those whose waits the task ends, ns. */
#define LEAST_TIME_OFF_NS 10000

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
	/* For how long it waited for a CPU. */
	u64 wait_ns;
	u32 tid;
	u32 unused;
	char comm[COMM];
};
SHARED(struct, busiest);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct busiest);
} busiest SEC(".maps");

/* What each CPU runs, and how long it has run tasks of each kind since watching began. Until its first switch is seen it is
 * taken for idle, unless find_tasks found a task on it. */
struct on_cpu {
	u64 since_ns;
	u64 clocks[CLOCKS];
	/* The last task of each kind, and its process. */
	char comm[CLOCKS][COMM];
	u32 tgid[CLOCKS];
	u32 runs;
	u32 unused;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct on_cpu);
} on_cpus SEC(".maps");

/* Adds to this CPU's value under a key; whether there was room for it. */
INLINE u32 is_added(void *map, const void *key, u64 ns, u64 times)
{
	struct account_value *known = bpf_map_lookup_elem(map, key), one = { .ns = ns, .times = times };

	if (unlikely(!known))
		return !bpf_map_update_elem(map, key, &one, BPF_NOEXIST);
	known->ns += ns;
	known->times += times;
	return 1;
}

/* The same for a row with a name, `by` in its key, of a task of this process. */
INLINE u32 is_added_named(void *map, void *key, char *by, u32 table, u32 tgid, u64 ns)
{
	struct account_value *known = find_named(map, key, by, table, tgid), one = { .ns = ns };

	if (unlikely(!known))
		return !bpf_map_update_elem(map, key, &one, BPF_NOEXIST);
	known->ns += ns;
	return 1;
}

INLINE void charge(struct account_key *key, u64 ns, u64 times, struct counts *c)
{
	if (!is_added(&account, key, ns, times) && c)
		__sync_fetch_and_add(&c->account_full_ns, ns);
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
	if (want_tasks)
		task_slept(state, ns);
}

INLINE void charge_behind(struct task_state *state, u32 of, const char *by, u32 tgid, u64 ns, struct counts *c)
{
	struct behind_key key = { .role = state->role, .kind = state->kind, .state = of };

	bpf_probe_read_kernel(key.by, COMM, by);
	if (!is_added_named(&behind, &key, key.by, NAMED_BEHIND, tgid, ns))
		add(&c->matrix_full, 1);
}

/* Whether the task sleeps, interruptibly or not. */
INLINE u32 is_asleep(struct task_state *state)
{
	return state->account_state >= ACCOUNT_ASLEEP;
}

/* The number in the register of system calls, of a task that may not be in one. */
INLINE u32 syscall_of(s32 number)
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

/* Charges time on a CPU until now. */
INLINE void charge_on(struct task_state *state, u64 now)
{
	u64 ns = since(state, now);

	charge_own(state, ns);
	if (state->life_on_ns)
		state->life_on_ns += ns;
}

INLINE u32 clock_of(struct task_struct *task, u32 is_watched)
{
	if (!task->pid)
		return CLOCKS;
	if (task->prio < MAX_RT_PRIO)
		return is_watched ? CLOCK_OWN_CLASS : CLOCK_OTHER_CLASS;
	return is_watched ? CLOCK_OWN : CLOCK_OTHER;
}

/* From `now` on the CPU runs this task. */
INLINE void cpu_runs(u32 cpu, struct task_struct *task, u32 is_watched, u64 now)
{
	struct on_cpu *there = bpf_map_lookup_elem(&on_cpus, &cpu);
	u32 runs = clock_of(task, is_watched);

	if (!there)
		return;
	if (there->since_ns && there->runs < CLOCKS && now > there->since_ns)
		there->clocks[there->runs & (CLOCKS - 1)] += now - there->since_ns;
	there->since_ns = now;
	there->runs = runs;
	if (runs < CLOCKS && runs != CLOCK_OWN) {
		there->tgid[runs & (CLOCKS - 1)] = is_watched ? 0 : task->tgid;
		bpf_probe_read_kernel(there->comm[runs & (CLOCKS - 1)], COMM, task->comm);
	}
}

/* The clock as it is now. */
INLINE u64 clock_at(struct on_cpu *cpu, u32 i, u64 now)
{
	u64 since = cpu->since_ns;

	return cpu->clocks[i] + (since && cpu->runs == i && now > since ? now - since : 0);
}

/* A task begins to wait for this CPU. */
INLINE void wait_begins(struct task_state *state, u32 cpu, u64 now)
{
	struct on_cpu *there = bpf_map_lookup_elem(&on_cpus, &cpu);

	state->wait_cpu = cpu;
	if (!there)
		return;
	for (u32 i = 0; i < CLOCKS; i++)
		state->clocks[i] = clock_at(there, i, now);
}

/* What a runnable task waits behind while its CPU runs a task of this kind. */
INLINE u32 behind_of(struct task_struct *task, u32 clock)
{
	if (clock == CLOCK_OWN || (clock == CLOCK_OWN_CLASS && task->prio < MAX_RT_PRIO))
		return ACCOUNT_BEHIND_OWN;
	if (clock == CLOCK_OTHER || task->prio < MAX_RT_PRIO)
		return ACCOUNT_BEHIND_OTHER;
	return ACCOUNT_BEHIND_CLASS;
}

INLINE void flush_woken_wait(struct task_state *state, struct counts *c)
{
	struct account_key key = {
		.wait_event = state->woken_wait_event, .syscall = NO_SYSCALL, .role = state->role, .kind = state->kind,
		.state = ACCOUNT_WOKEN,
	};
	u64 ns = __sync_lock_test_and_set(&state->woken_wait_ns, 0);

	if (ns)
		charge(&key, ns, 0, c);
}

/* A task of PostgreSQL that was woken and has not run yet still has the wait event of its sleep. Most wait for one event again
 * and again: the time is added up until it is another one. */
INLINE void charge_woken_wait(struct task_state *state, u64 ns, struct counts *c)
{
	if (!ns || !state->woken_ns || !state->wait_event)
		return;
	if (state->woken_wait_event != state->wait_event) {
		flush_woken_wait(state, c);
		state->woken_wait_event = state->wait_event;
	}
	__sync_fetch_and_add(&state->woken_wait_ns, ns);
}

/* Charges a wait for a CPU until now to what that CPU has run meanwhile, and to waking for as long as it was idle; a task that
 * is throttled waits for nothing else. */
INLINE void charge_wait(struct task_struct *task, struct task_state *state, u64 now, struct counts *c)
{
	u64 ns = since(state, now);
	u32 cpu = state->wait_cpu;
	struct on_cpu *there = bpf_map_lookup_elem(&on_cpus, &cpu);

	charge_woken_wait(state, ns, c);
	if (there && state->account_state != ACCOUNT_THROTTLED) {
		for (u32 i = 0; i < CLOCKS; i++) {
			u64 clock = clock_at(there, i, now), ran = clock - state->clocks[i];
			u32 of = behind_of(task, i);

			/* It is read while the other CPU may write it. */
			if (clock <= state->clocks[i])
				continue;
			state->clocks[i] = clock;
			if (ran > ns)
				ran = ns;
			if (!ran)
				continue;
			ns -= ran;
			__sync_fetch_and_add(&state->charged[of], ran);
			if (of != ACCOUNT_BEHIND_OWN)
				charge_behind(state, of, there->comm[i], there->tgid[i], ran, c);
		}
	}
	charge_own(state, ns);
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

/* A time off the CPU ends, of the state that the task is in. Short ones are left out. */
INLINE void keep_time_off(struct task_state *state, u64 begin, u64 end)
{
	struct time_off *off = &state->times_off[state->next_time_off & (TIMES_OFF - 1)];
	u32 of = state->account_state;

	if (!begin || end < begin + LEAST_TIME_OFF_NS)
		return;
	state->next_time_off += 1;
	off->begin_ns = begin;
	off->end_ns = end;
	off->wait_event = of >= ACCOUNT_ASLEEP ? state->wait_event : 0;
	off->syscall = of >= ACCOUNT_ASLEEP ? state->syscall : NO_SYSCALL;
	off->state = of;
}

INLINE void flush(struct task_state *state, struct counts *c)
{
	struct account_key key = { .role = state->role, .kind = state->kind, .syscall = NO_SYSCALL };

	flush_woken_wait(state, c);
	for (u32 i = 0; i < ACCOUNT_ASLEEP; i++) {
		u64 ns = __sync_lock_test_and_set(&state->charged[i], 0);

		if (!ns)
			continue;
		key.state = i;
		charge(&key, ns, 0, c);
	}
}

INLINE void account_leaves(struct task_struct *prev, struct task_state *state, u64 now, struct counts *c)
{
	u32 out_state = state->out_state;

	charge_on(state, now);
	if (want_tasks)
		task_left(state, out_state);
	if (out_state == OUT_SLEEPING || out_state == OUT_BLOCKED) {
		void *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

		state->account_state = out_state == OUT_BLOCKED ? ACCOUNT_BLOCKED : ACCOUNT_ASLEEP;
		state->syscall = prev->flags & PF_KTHREAD ? NO_SYSCALL : syscall_of(*(s32 *)((char *)regs + regs_syscall));
		read_backend(state);
		if (state->syscall == futex_number && !state->wait_event_at)
			futex_sleeps(prev, state, regs);
	} else if (out_state == OUT_EXITED) {
		state->charged_ns = 0;
		flush(state, c);
		if (state->life_on_ns && prev->pid == prev->tgid) {
			struct account_key key = {
				.syscall = NO_SYSCALL, .role = state->role, .kind = state->kind, .state = ACCOUNT_ENDED,
			};

			charge(&key, state->life_on_ns, 1, c);
		}
	} else {
		state->account_state = out_state == OUT_THROTTLED ? ACCOUNT_THROTTLED : ACCOUNT_WAKING;
		wait_begins(state, bpf_get_smp_processor_id(), now);
	}
}

INLINE u32 cpu_of(struct task_struct *task, struct task_state *state)
{
	if (has_field(task->thread_info.cpu))
		return task->thread_info.cpu;
	return state->cpu;
}

INLINE void account_wakes(struct task_struct *task, struct task_state *state, u64 now)
{
	if (!is_asleep(state))
		return;
	charge_sleep(state, since(state, now), 1, my_counts(shard()));
	keep_time_off(state, state->off_since_ns, now);
	state->account_state = is_throttled(task) ? ACCOUNT_THROTTLED : ACCOUNT_WAKING;
	wait_begins(state, cpu_of(task, state), now);
}

/* A task that waits moves to the queue of another CPU. */
SEC("tp_btf/sched_migrate_task")
int migrates(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct task_state *state = state_of(task);
	struct counts *c;
	u64 now;

	if (!state || state->is_kernel_worker || !state->charged_ns || state->account_state == ACCOUNT_ON || is_asleep(state))
		return 0;
	c = my_counts(shard());
	if (!c)
		return 0;
	now = bpf_ktime_get_ns();
	charge_wait(task, state, now, c);
	wait_begins(state, (u32)ctx[1], now);
	return 0;
}

INLINE void account_arrives(struct task_struct *next, struct task_state *state, u64 now, struct counts *c)
{
	/* It is asleep where its wake-up was not seen. */
	if (is_asleep(state))
		charge_sleep(state, since(state, now), 1, c);
	else
		charge_wait(next, state, now, c);
	keep_time_off(state, state->woken_ns ? state->woken_ns : state->off_since_ns, now);
	state->account_state = ACCOUNT_ON;
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
	if (is_asleep(state) && !(task->flags & PF_KTHREAD)) {
		void *regs = (void *)bpf_task_pt_regs(task);

		state->syscall = syscall_of(syscall_number_of(regs));
		if (state->syscall == futex_number && !state->wait_event_at)
			futex_slept(task, state, regs);
	}
	wait_begins(state, cpu_of(task, state), state->charged_ns);
}

INLINE void account_is_born(struct task_struct *task, struct task_state *state, u64 wait_event_at, u64 backend_type_at)
{
	account_begins(task, state, wait_event_at, backend_type_at);
	/* Not 0, which stands for those that were there before. */
	state->life_on_ns = 1;
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
	u64 now;

	if (!task)
		return 0;
	state = state_of(task);
	if (!state || !state->charged_ns)
		return 0;
	c = my_counts(shard());
	if (!c)
		return 0;
	now = bpf_ktime_get_ns();
	if (is_asleep(state)) {
		charge_sleep(state, since(state, now), 0, c);
		futex_stays(state);
	} else if (state->account_state == ACCOUNT_ON)
		charge_on(state, now);
	else
		charge_wait(task, state, now, c);
	/* Where the buffer is full, the iterator gives this task again with the next one. */
	if (want_tasks && !is_reported(ctx, task, state))
		return 0;
	most = bpf_map_lookup_elem(&busiest, &zero);
	if (most && state->charged[ACCOUNT_ON] > most->ns) {
		most->ns = state->charged[ACCOUNT_ON];
		most->wait_ns = 0;
		for (u32 i = ACCOUNT_ON + 1; i < ACCOUNT_ASLEEP; i++)
			most->wait_ns += state->charged[i];
		most->tid = task->pid;
		bpf_probe_read_kernel(most->comm, COMM, task->comm);
	}
	flush(state, c);
	return 0;
}
