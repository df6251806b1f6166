/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* The account of single tasks: what the account has of each task anyway is given out at the edge of a window, with what it slept
 * for most. */
#pragma once
#include "state.h"

/* A task in one window. */
struct task_record {
	u32 tid;
	u32 pid;
	u64 on_ns;
	/* Runnable and not on a CPU. */
	u64 without_ns;
	u64 asleep_ns;
	u32 left;
	u32 left_runnable;
	struct slept slept[SLEPT];
	char comm[COMM];
	u8 role;
	u8 kind;
	u8 unused[6];
};
SHARED(struct, task_record);

/* A sleep of this length has ended, or continues in the next window. Of more kinds of sleep than there is room for, the one with the
 * least time gives way to a longer one, so the largest stays. */
INLINE void task_slept(struct task_state *state, u64 ns)
{
	u64 least = ~0ULL;
	u32 at = 0;

	__sync_fetch_and_add(&state->asleep_ns, ns);
	for (u32 i = 0; i < SLEPT; i++) {
		struct slept *known = &state->slept[i];

		if (known->ns && known->wait_event == state->wait_event && known->syscall == state->syscall) {
			__sync_fetch_and_add(&known->ns, ns);
			return;
		}
		if (known->ns < least) {
			least = known->ns;
			at = i;
		}
	}
	if (ns > least) {
		struct slept *other = &state->slept[at & (SLEPT - 1)];

		other->wait_event = state->wait_event;
		other->syscall = state->syscall;
		other->ns = ns;
	}
}

INLINE void task_left(struct task_state *state, u32 out_state)
{
	state->left.times += 1;
	if (out_state == OUT_USER || out_state == OUT_KERNEL || out_state == OUT_THROTTLED)
		state->left.runnable += 1;
}

/* Gives out what the task did in the window that ends; whether there was room for it. */
INLINE u32 is_reported(struct bpf_iter__task *ctx, struct task_struct *task, struct task_state *state)
{
	struct task_record r = {
		.tid = task->pid, .pid = task->tgid, .asleep_ns = state->asleep_ns, .role = state->role, .kind = state->kind,
	};
	struct times_left left = state->left;

	r.left = left.times - state->left_before.times;
	r.left_runnable = left.runnable - state->left_before.runnable;
	r.on_ns = state->charged[ACCOUNT_ON];
	for (u32 i = ACCOUNT_ON + 1; i < ACCOUNT_ASLEEP; i++)
		r.without_ns += state->charged[i];
	for (u32 i = 0; i < SLEPT; i++)
		r.slept[i] = state->slept[i];
	bpf_probe_read_kernel(r.comm, COMM, task->comm);
	if (bpf_seq_write(ctx->meta->seq, &r, sizeof(r)))
		return 0;
	/* What came meanwhile is of the next window. */
	__sync_fetch_and_sub(&state->asleep_ns, r.asleep_ns);
	state->left_before = left;
	for (u32 i = 0; i < SLEPT; i++)
		__sync_fetch_and_sub(&state->slept[i].ns, r.slept[i].ns);
	return 1;
}
