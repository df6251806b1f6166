/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* How long kernel threads that are bound to one CPU waited for it, and behind whom. */
#pragma once
#include "state.h"

struct hog {
	char worker[COMM];
	char hog[COMM];
};
SHARED(struct, hog);

struct hog_counts {
	u64 times;
	u64 wait_ns;
	/* Of it, behind a task that was in the kernel. */
	u64 in_kernel_ns;
};
SHARED(struct, hog_counts);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct hog);
	__type(value, struct hog_counts);
} hogs SEC(".maps");

/* The task that had this CPU for longest lately, and since when the current one has it. */
struct runner {
	u64 since_ns;
	u64 begin_ns;
	u64 end_ns;
	u32 is_in_kernel;
	u32 tgid;
	char comm[COMM];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct runner);
} runners SEC(".maps");

/* A longer time than this ago is not lately. */
#define LATELY_NS 50000000

/* Whether the task that leaves was in the kernel for what can be known: a thread of it, preempted inside, or on the way
 * back from a system call when it was asked to leave. A user task that goes to sleep may have been in user mode until then. */
INLINE u32 is_in_kernel(u64 *ctx, struct task_struct *prev)
{
	u32 state = switch_has_state ? (u32)ctx[3] : prev->__state;

	if (prev->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER) || ctx[0])
		return 1;
	if (state != TASK_RUNNING || !prev->pid)
		return 0;
	return syscall_number_of((void *)bpf_task_pt_regs(bpf_get_current_task_btf())) >= 0;
}

/* A task leaves this CPU. */
INLINE void runs_until_now(u64 *ctx, struct task_struct *prev, u32 is_watched)
{
	u64 now = bpf_ktime_get_ns();
	u32 zero = 0;
	struct runner *r = bpf_map_lookup_elem(&runners, &zero);

	if (!r)
		return;
	if (prev->pid && r->since_ns &&
	    (now - r->since_ns >= r->end_ns - r->begin_ns || now - r->end_ns > LATELY_NS)) {
		r->begin_ns = r->since_ns;
		r->end_ns = now;
		r->is_in_kernel = is_in_kernel(ctx, prev);
		r->tgid = is_watched ? 0 : prev->tgid;
		bpf_probe_read_kernel(r->comm, COMM, prev->comm);
	}
	r->since_ns = now;
}

/* A kernel worker that was woken at `woken_ns` has its CPU. It waited behind the task that ran for most of that time, or
 * else behind the last one. */
INLINE void worker_arrives(u64 *ctx, struct task_struct *before, u32 is_watched, struct task_struct *task, u64 woken_ns,
			   u64 now, struct counts *c)
{
	u64 wait_ns = now - woken_ns, begin_ns;
	struct hog_counts *known, one = { .times = 1, .wait_ns = wait_ns };
	struct runner *r;
	struct hog pair;
	u32 zero = 0, tgid;

	__builtin_memset(&pair, 0, sizeof(pair));
	bpf_probe_read_kernel(pair.worker, COMM, task->comm);
	r = bpf_map_lookup_elem(&runners, &zero);
	begin_ns = r && r->begin_ns > woken_ns ? r->begin_ns : woken_ns;
	if (r && r->end_ns > begin_ns && 2 * (r->end_ns - begin_ns) >= wait_ns) {
		__builtin_memcpy(pair.hog, r->comm, COMM);
		tgid = r->tgid;
		one.in_kernel_ns = r->is_in_kernel ? wait_ns : 0;
	} else {
		bpf_probe_read_kernel(pair.hog, COMM, before->comm);
		tgid = is_watched ? 0 : before->tgid;
		one.in_kernel_ns = is_in_kernel(ctx, before) ? wait_ns : 0;
	}
	known = find_named(&hogs, &pair, pair.hog, NAMED_HOGS, tgid);
	if (likely(known)) {
		__sync_fetch_and_add(&known->times, 1);
		__sync_fetch_and_add(&known->wait_ns, wait_ns);
		__sync_fetch_and_add(&known->in_kernel_ns, one.in_kernel_ns);
	} else if (bpf_map_update_elem(&hogs, &pair, &one, BPF_NOEXIST)) {
		add(&c->matrix_full, 1);
	}
}
