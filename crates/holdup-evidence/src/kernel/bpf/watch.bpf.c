/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* The one program that runs at each switch; collectors bring its parts. One object with parts that are compiled out is
 * cheaper than a program for each collector: the task's state is looked up once. */
#include "state.h"
#include "entries.h"
#include "../../collectors/timeline/timeline.bpf.h"
#include "../../collectors/critical_sections/sections.bpf.h"
#include "../../collectors/critical_sections/residuals.bpf.h"
#include "../../collectors/switches/switches.bpf.h"
#include "../../collectors/faults/faults.bpf.h"
#include "../../collectors/kworkers/kworkers.bpf.h"
#include "../../collectors/off_cpu/off_cpu.bpf.h"
#include "../../collectors/account/account.bpf.h"
#include "../../collectors/account/wakers.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

INLINE u32 out_state_of(u64 preempt, u32 state, struct task_struct *prev)
{
	/* First, because on a preemptible kernel a throttled task is preempted where it leaves its run queue
	 * (sched/fair.c:throttle_cfs_rq_work, 6.18). */
	if ((preempt || state == TASK_RUNNING) && is_throttled(prev))
		return OUT_THROTTLED;
	if (preempt)
		return OUT_KERNEL;
	if (state == TASK_RUNNING)
		return OUT_USER;
	if (state & TASK_DEAD)
		return OUT_EXITED;
	if (is_blocked(state))
		return OUT_BLOCKED;
	return OUT_SLEEPING;
}

INLINE void leaves(u64 *ctx, struct task_struct *prev, struct task_struct *next, u32 is_watched, struct task_state *state,
		   struct counts *c, u32 first_histogram, u64 now)
{
	u32 prev_state = switch_has_state ? (u32)ctx[3] : prev->__state;
	u32 out_state = out_state_of(ctx[0], prev_state, prev);
	u64 role = role_of(state);
	u32 is_counted = !(want_kworkers && state->is_kernel_worker);
	u64 before;

	if (is_counted) {
		add(&c->left[role][out_state], 1);
		if (state->on_since_ns && now >= state->on_since_ns) {
			add(&c->on_cpu_ns[role], now - state->on_since_ns);
			record(first_histogram + HISTOGRAM_ON, now - state->on_since_ns, shared_shards);
		}
	}
	if (want_residuals && state->residual)
		residual_leaves(state, now);
	before = state->off_since_ns;
	state->off_since_ns = now;
	state->woken_ns = 0;
	state->out_state = out_state;
	if (want_stacks && !has_sched_exit && is_counted && out_state != OUT_EXITED)
		stack_leaves(ctx, prev, state, before, now, c);
	if (is_counted && (out_state == OUT_USER || out_state == OUT_KERNEL || out_state == OUT_THROTTLED)) {
		struct asked *asked = asked_of(bpf_get_smp_processor_id(), prev);

		state->cause = cause_of(state, asked, prev, next, now, c);
		if (want_requests && asked && out_state != OUT_THROTTLED)
			count_request(ctx, state, asked, now, c);
		add(one_of(c->cause[role], state->cause, CAUSES), 1);
		bpf_probe_read_kernel(state->by, COMM, next->comm);
		state->by_tgid = is_watched ? 0 : next->tgid;
	}
	if (want_sections)
		section_leaves(ctx, state, prev, c);
	if (want_residuals && state->held == HOLDER)
		residual_asks(state, prev, now);
}

/* For how long a task could run before it came, when that is known. */
INLINE u64 waited(struct task_state *state, u64 off_ns, u64 now, struct counts *c)
{
	/* A task that left while it was runnable has waited ever since. */
	if (state->out_state == OUT_USER || state->out_state == OUT_KERNEL || state->out_state == OUT_THROTTLED)
		return off_ns;
	if (!state->woken_ns) {
		add(&c->no_wakeup, 1);
		return 0;
	}
	return now >= state->woken_ns ? now - state->woken_ns : 0;
}

INLINE void arrives(u64 *ctx, struct task_struct *prev, u32 is_watched, struct task_struct *next, struct task_state *state,
		    struct counts *c, u32 first_histogram, u64 now)
{
	u32 out_state = state->out_state, cpu = bpf_get_smp_processor_id();
	u64 role = role_of(state);
	u32 is_woken = out_state == OUT_SLEEPING || out_state == OUT_BLOCKED;
	u64 off_ns, wait_ns;

	if (out_state >= OUT_STATES)
		return;
	if (likely(state->off_since_ns)) {
		off_ns = now - state->off_since_ns;
		if (unlikely(now < state->off_since_ns)) {
			/* The clocks of two CPUs disagree: no time is better than a wrong one. */
			add(&c->clock_backwards, 1);
			if (want_sections)
				section_arrives(state, 0);
		} else if (want_kworkers && state->is_kernel_worker) {
			if (state->woken_ns && now > state->woken_ns)
				worker_arrives(ctx, prev, is_watched, next, state->woken_ns, now, c);
		} else {
			add(&c->off_cpu_ns[role], off_ns);
			record(first_histogram + HISTOGRAM_OFF + out_state, off_ns, shared_shards);
			wait_ns = waited(state, off_ns, now, c);
			if (wait_ns) {
				add(&c->wait_ns[role], wait_ns);
				record(first_histogram + (is_woken ? HISTOGRAM_WAIT_WOKEN : HISTOGRAM_WAIT_PREEMPTED), wait_ns,
				       shared_shards);
				if (shared_shards)
					record_cpu_wait(wait_ns);
			}
			if (!is_woken && out_state != OUT_EXITED)
				add(one_of(c->preempted_off_ns[role], state->cause, CAUSES), off_ns);
			if (out_state == OUT_USER || out_state == OUT_KERNEL)
				count_pair(state, next, off_ns, c);
			if (want_sections)
				section_arrives(state, off_ns);
			if (want_stacks)
				stack_arrives(next, state, role, out_state, off_ns, c);
		}
		if (state->cpu != cpu)
			add(&c->migrated[role], 1);
	}
	if (want_residuals && state->residual)
		residual_arrives(state, now);
	state->cpu = cpu;
	state->on_since_ns = now;
	comes_unasked(cpu);
}

INLINE int wakes(u64 *ctx)
{
	struct task_state *state = state_of((struct task_struct *)ctx[0]);

	if (!state)
		return 0;
	state->woken_ns = bpf_ktime_get_ns();
	if (want_account && !state->is_kernel_worker)
		account_wakes((struct task_struct *)ctx[0], state, state->woken_ns);
	if (want_timeline)
		event_wakeup((struct task_struct *)ctx[0], state->woken_ns);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int wakes_up(u64 *ctx)
{
	return wakes(ctx);
}

SEC("tp_btf/sched_wakeup_new")
int wakes_up_new(u64 *ctx)
{
	return wakes(ctx);
}

SEC("tp_btf/sched_switch")
int switched(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct task_state *from = prev->pid ? state_of(prev) : NULL;
	struct task_state *to = next->pid ? state_of(next) : NULL;
	struct counts *c;
	u32 here;
	u64 now;

	if (want_kworkers)
		runs_until_now(ctx, prev, !!from);
	/* Most switches of a host are of tasks that are not watched: only the account needs their time. */
	if (want_account) {
		now = bpf_ktime_get_ns();
		cpu_runs(bpf_get_smp_processor_id(), next, to && !to->is_kernel_worker, now);
	}
	if (!from) {
		/* The checker of programs does not know the logical or of two pointers, which this would be compiled to. */
		barrier(to);
		if (!to)
			return 0;
	}
	here = shard();
	c = my_counts(here);
	if (!c)
		return 0;
	if (!want_account)
		now = bpf_ktime_get_ns();
	add(&c->switches, 1);
	if (from) {
		leaves(ctx, prev, next, !!to, from, c, (here * roles + from->role) * HISTOGRAMS, now);
		if (want_account && !from->is_kernel_worker)
			account_leaves(prev, from, now, c);
	}
	if (want_timeline)
		event_switch(prev, next, from, now, c);
	if (to) {
		if (want_account && !to->is_kernel_worker)
			account_arrives(next, to, now, c);
		arrives(ctx, prev, !!from, next, to, c, (here * roles + to->role) * HISTOGRAMS, now);
	}
	return 0;
}

/* What a state begins as, which is too large for the stack. One walk is read at a time, and the kernel runs the program of a
 * tracepoint once at a time on each CPU (bpf_prog->active), so each of the two that make states has its own. */
enum maker { MAKER_WALK, MAKER_BIRTH, MAKERS };
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAKERS);
	__type(key, u32);
	__type(value, struct task_state);
} first_states SEC(".maps");

INLINE struct task_state *begin_watching(u32 maker, struct task_struct *task, u32 role, u32 image, u32 is_kernel_worker)
{
	struct task_state *new = bpf_map_lookup_elem(&first_states, &maker), *state;

	if (!new)
		return NULL;
	new->role = role;
	new->image = image;
	new->out_state = OUT_EXITED;
	new->held = NEITHER;
	new->fault_held = NEITHER;
	new->is_kernel_worker = is_kernel_worker;
	state = bpf_task_storage_get(&tasks, task, new, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!state) {
		struct counts *c = my_counts(0);

		if (c)
			__sync_fetch_and_add(&c->no_storage, 1);
	}
	return state;
}

INLINE u32 is_bound_worker(struct task_struct *task)
{
	return task->flags & PF_KTHREAD && task->nr_cpus_allowed == 1;
}

/* Tasks that are there when watching begins. */
SEC("iter/task")
int find_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct watched *w;
	u32 tgid;

	if (!task)
		return 0;
	tgid = task->tgid;
	w = bpf_map_lookup_elem(&processes, &tgid);
	if (want_account && task->on_cpu && has_field(task->thread_info.cpu))
		cpu_runs(task->thread_info.cpu, task, !!w, bpf_ktime_get_ns());
	if (w) {
		struct task_state *state = state_of(task);

		if (!state) {
			state = begin_watching(MAKER_WALK, task, w->role, w->image, 0);
			if (want_account && state) {
				account_begins(task, state, w->wait_event_at, w->backend_type_at);
				state->wait_event = w->wait_event;
				state->kind = w->kind;
			}
		}
	} else if (want_kworkers && is_bound_worker(task)) {
		begin_watching(MAKER_WALK, task, 0, IMAGE_NONE, 1);
	}
	return 0;
}

/* task_newtask(task, clone_flags): children of watched tasks are watched, before they first run. */
SEC("tp_btf/task_newtask")
int new_task(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0], *parent = bpf_get_current_task_btf();
	struct task_state *state = state_of(parent);

	if (state && !state->is_kernel_worker) {
		struct task_state *child =
			begin_watching(MAKER_BIRTH, task, state->role, image_of(state, parent), 0);

		if (want_account && child)
			account_is_born(task, child, state->wait_event_at, state->backend_type_at);
		if (want_stacks && task->pid == task->tgid)
			report_process(STACK_FORK, task->tgid, parent->tgid);
	} else {
		u32 tgid = parent->tgid;
		struct watched *w = bpf_map_lookup_elem(&processes, &tgid);

		if (w) {
			struct task_state *child = begin_watching(MAKER_BIRTH, task, w->role, w->image, 0);

			if (want_account && child)
				account_is_born(task, child, w->wait_event_at, w->backend_type_at);
		}
	}
	return 0;
}

/* sched_process_exec(task, old_pid, bprm): what the sections of the new program are is not known in this window. */
SEC("tp_btf/sched_process_exec")
int executes(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct task_state *state = state_of(task);
	u32 zero = 0;
	struct counts *c;

	if (!state)
		return 0;
	state->image = IMAGE_UNKNOWN;
	/* Its variables lie elsewhere from now on. */
	state->wait_event_at = state->backend_type_at = 0;
	state->wait_event = state->kind = 0;
	if (want_stacks)
		report_process(STACK_EXEC, task->tgid, 0);
	if (!want_sections)
		return 0;
	u32 tgid = task->tgid;
	struct watched w = { .role = state->role, .image = IMAGE_UNKNOWN };
	bpf_map_update_elem(&processes, &tgid, &w, BPF_ANY);
	c = my_counts(zero);
	if (c)
		__sync_fetch_and_add(&c->executed, 1);
	return 0;
}
