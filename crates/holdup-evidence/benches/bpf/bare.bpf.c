/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* The least that measures waits for a CPU from the outside: when a task was woken or preempted, by pid in a hash, and at
 * the switch the time since then into one histogram by powers of two. The reference of the bench `watching`: about what
 * any tool pays that begins at the wake-up. */
#include "base.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10240);
	__type(key, u32);
	__type(value, u64);
} waiting_since_ns SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, u32);
	__type(value, u64);
} waits SEC(".maps");

INLINE int waits_from_now(struct task_struct *task)
{
	u32 pid = task->pid;
	u64 now;

	if (!pid)
		return 0;
	now = bpf_ktime_get_ns();
	bpf_map_update_elem(&waiting_since_ns, &pid, &now, BPF_ANY);
	return 0;
}

/* The highest bit that is set. */
INLINE u32 log2_of(u64 value)
{
	u32 bit = 0;

	for (u32 step = 32; step; step >>= 1) {
		if (value >> step) {
			value >>= step;
			bit += step;
		}
	}
	return bit;
}

SEC("tp_btf/sched_wakeup")
int wakes(u64 *ctx)
{
	return waits_from_now((void *)ctx[0]);
}

SEC("tp_btf/sched_wakeup_new")
int wakes_new(u64 *ctx)
{
	return waits_from_now((void *)ctx[0]);
}

SEC("tp_btf/sched_switch")
int switches(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 pid = next->pid, place;
	u64 *since, *count, wait_ns;

	if (prev->__state == TASK_RUNNING)
		waits_from_now(prev);
	since = bpf_map_lookup_elem(&waiting_since_ns, &pid);
	if (!since)
		return 0;
	wait_ns = bpf_ktime_get_ns() - *since;
	if ((s64)wait_ns >= 0) {
		place = log2_of(wait_ns);
		count = bpf_map_lookup_elem(&waits, &place);
		if (count)
			__sync_fetch_and_add(count, 1);
	}
	bpf_map_delete_elem(&waiting_since_ns, &pid);
	return 0;
}
