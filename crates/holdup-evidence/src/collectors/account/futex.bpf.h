/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* Which sleeps in futex(2) are for a mutex. */
#pragma once
#include "state.h"
#include "../critical_sections/sections.bpf.h"

/* FUTEX_LOCK: a futex that is a lock (lock_of). */
enum account_syscall { NO_SYSCALL = 0xffffffff, FUTEX_LOCK = 0xfffffffe };
SHARED(enum, account_syscall);

/* include/uapi/linux/futex.h */
enum futex_operations {
	FUTEX_WAIT = 0,
	FUTEX_LOCK_PI = 6,
	FUTEX_WAIT_BITSET = 9,
	FUTEX_LOCK_PI2 = 13,
	FUTEX_CLOCK_REALTIME = 256,
	FUTEX_CMD_MASK = ~(128 | FUTEX_CLOCK_REALTIME),
};

enum futex_answer { NO_LOCK, MAYBE_LOCK, LOCK };

/* A task waits for a lock while the word says "locked, with waiters", which is 2 for the mutexes of glibc, Rust and Go, and the
 * highest bit for those that have their owner in the word (musl, FUTEX_LOCK_PI); -1 is a thread of Rust that is parked. Words
 * of other uses may have the same value: counters of condition variables, phases. Those of glibc's condition variables have a
 * clock. What ends by itself is no mutex. */
INLINE u32 lock_of(u32 operation, u32 value, u64 timeout)
{
	u32 command = operation & FUTEX_CMD_MASK, is_locked = value == 2 || value >> 30 == 2;

	if (command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2)
		return LOCK;
	if (timeout || !is_locked || operation & FUTEX_CLOCK_REALTIME)
		return NO_LOCK;
	return command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET ? MAYBE_LOCK : NO_LOCK;
}

struct futex_word {
	u64 at;
	u64 tgid;
};

/* Words that tasks have waited for with other values than a lock has. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct futex_word);
	__type(value, u8);
} no_locks SEC(".maps");

/* The task sleeps for the lock at a word. */
INLINE void sleeps_for_lock(struct task_state *state, u64 at, u32 is_unsure)
{
	state->is_unsure = is_unsure;
	state->syscall = FUTEX_LOCK;
	state->futex_word = at;
}

/* The task goes to sleep in futex(2). */
INLINE void futex_sleeps(struct task_struct *task, struct task_state *state, void *regs)
{
	struct futex_word word = { .at = fixed_register_of(regs, regs_argument1), .tgid = task->tgid };
	u32 answer = lock_of(fixed_register_of(regs, regs_argument2), fixed_register_of(regs, regs_argument3),
			     fixed_register_of(regs, regs_argument4));
	u8 *known = answer == LOCK ? NULL : bpf_map_lookup_elem(&no_locks, &word), one = 1;

	if (answer == NO_LOCK && !known)
		bpf_map_update_elem(&no_locks, &word, &one, BPF_ANY);
	if (answer != NO_LOCK && !known)
		sleeps_for_lock(state, word.at, answer == MAYBE_LOCK);
}

/* The task slept in futex(2) when watching began. */
INLINE void futex_slept(struct task_struct *task, struct task_state *state, void *regs)
{
	u32 operation = register_of(regs, regs_argument2), value = register_of(regs, regs_argument3);

	if (lock_of(operation, value, register_of(regs, regs_argument4)) == LOCK)
		sleeps_for_lock(state, register_of(regs, regs_argument1), 0);
}

/* At the edge of a window the task still sleeps: who waits that long for what may be no lock is taken for idle. */
INLINE void futex_stays(struct task_state *state)
{
	if (state->syscall == FUTEX_LOCK && state->is_unsure)
		state->syscall = futex_number;
}
