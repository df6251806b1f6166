/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* What the kernel was entered for, from the stack: on the way back to user mode, as at a preemption inside the kernel, the
 * function that was entered is still there. */
#pragma once
#include "state.h"

enum entry_limits { ENTRY_FUNCTIONS = 16, ENTRY_FRAMES = 48 };
SHARED(enum, entry_limits);

/* A function that the kernel is entered by; 0 to 0 for none. */
struct entry_function {
	u64 begin;
	u64 end;
	u64 entry;
};
SHARED(struct, entry_function);
const volatile struct entry_function entry_functions[ENTRY_FUNCTIONS];

struct kernel_stack {
	u64 frames[ENTRY_FRAMES];
};

/* Interrupts are off where it is used. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct kernel_stack);
} kernel_stack SEC(".maps");

/* The innermost entry of the frames. */
CHECKED_ONCE u32 entry_of_frames(u32 count)
{
	u32 zero = 0;
	struct kernel_stack *stack = bpf_map_lookup_elem(&kernel_stack, &zero);

	if (!stack)
		return ENTRY_UNKNOWN;
	for (u32 i = 0; i < ENTRY_FRAMES; i++) {
		u64 frame = stack->frames[i];

		if (i >= count)
			break;
		for (u32 function = 0; function < ENTRY_FUNCTIONS; function++) {
			if (frame >= entry_functions[function].begin && frame < entry_functions[function].end)
				return entry_functions[function].entry;
		}
	}
	return ENTRY_UNKNOWN;
}

INLINE u32 entered_for(u64 *ctx)
{
	u32 zero = 0;
	struct kernel_stack *stack = bpf_map_lookup_elem(&kernel_stack, &zero);
	long bytes;

	if (!stack)
		return ENTRY_UNKNOWN;
	bytes = bpf_get_stack(ctx, stack->frames, sizeof(stack->frames), 0);
	return bytes > 0 ? entry_of_frames(bytes / sizeof(u64)) : ENTRY_UNKNOWN;
}
