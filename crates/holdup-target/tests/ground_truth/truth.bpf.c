/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* What a worker's own records say in the moment in which it leaves the CPU, and why it was asked to leave: read by a
 * separate program, which shares nothing with the one under test but the tracepoints. */
#include "base.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define FRAMES 12

struct worker {
	u64 lock_address;
	u64 state_address;
};

struct left {
	u64 ns;
	u32 tid;
	u32 failed;
	u8 lock[128];
	u8 state[8];
	u64 ip;
	/* The kernel's stack when it was asked to leave; the first is 0 when it was not asked. */
	u64 asked[FRAMES];
	u32 next_prio;
	u32 preempt;
};

struct asked {
	u64 stack[FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct worker);
} workers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct asked);
} requests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 67108864);
} lefts SEC(".maps");

struct pt_regs___x86 {
	u64 ip;
} CORE;

struct pt_regs___arm64 {
	u64 pc;
} CORE;

/* Where the current task is in user mode. */
INLINE u64 user_ip(void)
{
	struct pt_regs___x86 *x86 = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	struct pt_regs___arm64 *arm64 = (void *)x86;
	u64 ip = 0;

	if (has_field(x86->ip))
		bpf_probe_read_kernel(&ip, sizeof(ip), &x86->ip);
	else if (has_field(arm64->pc))
		bpf_probe_read_kernel(&ip, sizeof(ip), &arm64->pc);
	return ip;
}

SEC("tp_btf/sched_set_need_resched_tp")
int is_asked(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tid = task->pid;
	struct asked *known = bpf_map_lookup_elem(&requests, &tid);

	if (!known || known->stack[0])
		return 0;
	bpf_get_stack(ctx, known->stack, sizeof(known->stack), 0);
	return 0;
}

SEC("tp_btf/sched_switch")
int leaves(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 tid = prev->pid, next_tid = next->pid;
	struct worker *worker = bpf_map_lookup_elem(&workers, &tid);
	struct asked *asked;
	struct left *left;

	if (worker) {
		left = bpf_ringbuf_reserve(&lefts, sizeof(*left), 0);
		if (left) {
			left->ns = bpf_ktime_get_ns();
			left->tid = tid;
			left->preempt = ctx[0];
			left->next_prio = next->prio;
			left->failed = bpf_probe_read_user(left->lock, sizeof(left->lock), (void *)worker->lock_address) ||
				       bpf_probe_read_user(left->state, sizeof(left->state), (void *)worker->state_address);
			left->ip = user_ip();
			__builtin_memset(left->asked, 0, sizeof(left->asked));
			asked = bpf_map_lookup_elem(&requests, &tid);
			if (asked)
				__builtin_memcpy(left->asked, asked->stack, sizeof(left->asked));
			bpf_ringbuf_submit(left, 1);
		}
	}
	asked = bpf_map_lookup_elem(&requests, &next_tid);
	if (asked)
		asked->stack[0] = 0;
	return 0;
}
