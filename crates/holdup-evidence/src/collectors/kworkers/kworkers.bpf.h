/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* How long kernel threads that are bound to one CPU waited for it, and behind whom. */
#pragma once
#include "state.h"

struct hog {
	char worker[COMM];
	char hog[COMM];
};

struct hog_counts {
	u64 times;
	u64 wait_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct hog);
	__type(value, struct hog_counts);
} hogs SEC(".maps");

/* A kernel worker has its CPU after `wait_ns`; until now `before` had it. */
INLINE void worker_arrives(struct task_struct *before, struct task_struct *task, u64 wait_ns, struct counts *c)
{
	struct hog pair;
	struct hog_counts *known, one = { .times = 1, .wait_ns = wait_ns };

	__builtin_memset(&pair, 0, sizeof(pair));
	bpf_probe_read_kernel(pair.worker, COMM, task->comm);
	bpf_probe_read_kernel(pair.hog, COMM, before->comm);
	known = bpf_map_lookup_elem(&hogs, &pair);
	if (likely(known)) {
		__sync_fetch_and_add(&known->times, 1);
		__sync_fetch_and_add(&known->wait_ns, wait_ns);
	} else if (bpf_map_update_elem(&hogs, &pair, &one, BPF_NOEXIST)) {
		add(&c->matrix_full, 1);
	}
}
