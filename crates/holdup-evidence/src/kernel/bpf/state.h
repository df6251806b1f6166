/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* The state of each watched task, and the tables that programs count into. */
#pragma once
#include "base.h"

enum sizes {
	/* A power of two: role_of. */
	ROLES = 8,
	/* Log-linear: 64 buckets for each power of two, so a bucket is at most 1/64 of its values wide and its middle at most
	 * 0.8 % away from each of them. 128 single values, then 2^7 to 2^42 ns (73 minutes). */
	BUCKETS = 128 + 35 * 64,
	/* This number of buckets is one in the waits for each CPU: a histogram for each of 64 CPUs in each window takes room, and
	 * the middle of an eighth of a power of two is at most 6 % away from each of its values. */
	COARSE = 8,
	COMM = 16,
};
SHARED(enum, sizes);

/* The state that a task left the CPU in. */
enum switch_out_state { OUT_SLEEPING, OUT_BLOCKED, OUT_USER, OUT_KERNEL, OUT_THROTTLED, OUT_EXITED, OUT_STATES };
SHARED(enum, switch_out_state);
/* Why it left while it could run. */
enum cause { CAUSE_WAKEUP, CAUSE_SLICE, CAUSE_PROMOTED, CAUSE_CLASS, CAUSE_THROTTLED, CAUSE_OTHER, CAUSES };
SHARED(enum, cause);
/* What it was doing in the kernel when it left, for a task in a section. */
enum context { IN_USER, IN_SYSCALL, IN_FAULT, IN_SLEEP, CONTEXTS };
SHARED(enum, context);
/* What the kernel was entered for. A call is one that another CPU has this one make, such as for wake-ups that it queued. */
enum kernel_entry { ENTRY_FAULT, ENTRY_SYSCALL, ENTRY_TIMER, ENTRY_RESCHEDULE, ENTRY_CALL, ENTRY_INTERRUPT, ENTRY_UNKNOWN, ENTRIES };
SHARED(enum, kernel_entry);
/* Where a request to reschedule was made: by another CPU, because the time of the task is used up, or here, in what the kernel was
 * entered for. And where it came due: on the way back from that to user mode, or inside the kernel. */
enum request { MADE_ELSEWHERE, MADE_AT_SLICE_END, MADE_HERE, MADES = MADE_HERE + ENTRIES, DUES = 2 * ENTRIES, REQUESTS = MADES * DUES };
SHARED(enum, request);
/* Kinds of page faults: without and with waiting for a disk, of small pages; of huge ones. */
enum fault_kind { FAULT_MINOR, FAULT_MAJOR, FAULT_HUGE, FAULTS };
SHARED(enum, fault_kind);
/* SectionRole, and the third answer. */
enum held { HOLDER, WAITER, NEITHER, HELD };
SHARED(enum, held);

/* The states of the account. Those before ACCOUNT_ASLEEP are added up in the task's own state. */
enum account_state {
	ACCOUNT_ON,
	ACCOUNT_BEHIND_OWN,
	ACCOUNT_BEHIND_OTHER,
	ACCOUNT_BEHIND_CLASS,
	ACCOUNT_THROTTLED,
	ACCOUNT_WAKING,
	ACCOUNT_ASLEEP,
	ACCOUNT_BLOCKED,
	ACCOUNT_STATES,
	/* No state: the CPU time of processes that began under watch and ended, and their number. */
	ACCOUNT_ENDED = ACCOUNT_STATES,
	/* No state either: the part of the runnable ones between the end of a wait of PostgreSQL and the first instruction after
	 * it. Until then the backend still shows its wait event to others. */
	ACCOUNT_WOKEN,
};
SHARED(enum, account_state);

/* What a CPU runs, for the account. A power of two of clocks. */
enum cpu_clock { CLOCK_OWN, CLOCK_OTHER, CLOCK_OWN_CLASS, CLOCK_OTHER_CLASS, CLOCKS };

/* A time that a task was off the CPU: asleep for what, or runnable. */
struct time_off {
	u64 begin_ns;
	u64 end_ns;
	u32 wait_event;
	u32 syscall;
	u32 state;
	u32 unused;
};
/* Of each task the last ones are kept, for those whose wait it ends. A power of two. */
#define TIMES_OFF 4

/* What a task slept for, and for how long. */
struct slept {
	u32 wait_event;
	u32 syscall;
	u64 ns;
};
/* Of each task those with the most time are kept. A power of two. */
enum slept_kept { SLEPT = 4 };
SHARED(enum, slept_kept);

/* How often a task left its CPU, and did so while it could run. */
struct times_left {
	u32 times;
	u32 runnable;
};

struct task_state {
	u64 off_since_ns;
	u64 on_since_ns;
	u64 woken_ns;
	u64 fault_begin_ns;
	/* What the process had of memory when the fault began, pages. */
	s64 fault_begin_pages[2];
	/* Where in its section it is. A holder whose residual time is asked for: its number (0: none) and when it was asked, when it first was back on a
	 * CPU, since when it counts now, for how long before it left again, and where it resumes. */
	u64 section_at;
	/* The lock that it held when it left the CPU; 0 where that is not known. */
	u64 held_word;
	u64 residual_asked_ns;
	u64 residual_back_ns;
	u64 residual_since_ns;
	u64 residual_on_ns;
	u64 residual_ip;
	/* The slice of time that the fault began in. */
	u32 fault_slice;
	u32 residual;
	/* Whether it was seen to resume. */
	u32 residual_resumed;
	u32 role;
	/* Which section table; IMAGE_NONE for none, IMAGE_UNKNOWN after exec. */
	u32 image;
	u32 cpu;
	/* The image at that time. */
	u32 held_image;
	u16 section;
	u16 fault_section;
	u8 out_state;
	u8 held;
	u8 context;
	u8 cause;
	u8 fault_held;
	u8 fault_is_first;
	u8 is_kernel_worker;
	u8 unused;
	/* The task that took the CPU: its process and its name. */
	u32 by_tgid;
	char by[COMM];
	/* The weight in a profile of the time off the CPU that just ended, and its length. */
	u64 sample_weight_ns;
	u64 sample_length_ns;
	/* The begin of the wait that was last seen to be ended by a waker. */
	u64 waking_of_ns;
	/* The time before the switch-out that was sampled, 0 for none: how likely that was. */
	u64 sample_gap_ns;
	/* Until when the account has the task's time, and what it has not yet flushed. */
	u64 charged_ns;
	u64 charged[ACCOUNT_ASLEEP];
	/* The CPU time of a process that began under watch, until the last change of state; 0 for others. */
	u64 life_on_ns;
	/* Of a task that waits for a CPU: its clocks when the wait began or was last charged. */
	u64 clocks[CLOCKS];
	/* Where PostgreSQL keeps the pointer to what the task waits for, and what kind of process it is; 0 elsewhere. */
	u64 wait_event_at;
	u64 backend_type_at;
	u32 wait_event;
	u32 syscall;
	u8 account_state;
	u8 kind;
	/* Whether the futex that the task sleeps for may be no lock after all. */
	u8 is_unsure;
	u8 unused2;
	u32 wait_cpu;
	struct time_off times_off[TIMES_OFF];
	u32 next_time_off;
	/* Of a task that is woken more than once from waits for one event: the event, and for how long it was then runnable. */
	u32 woken_wait_event;
	u64 woken_wait_ns;
	/* The word of the mutex that the task sleeps for. */
	u64 futex_word;
	/* With want_tasks: the sleeps of this window, and how often it left its CPU, until now and until the window began. */
	struct slept slept[SLEPT];
	u64 asleep_ns;
	struct times_left left;
	struct times_left left_before;
};

enum image_number { IMAGE_NONE = 0 };
SHARED(enum, image_number);
#define IMAGE_UNKNOWN 0xffffffff

/* Counts of one shard, each a u64 (layout.rs adds them as such). */
struct counts {
	u64 switches;
	u64 left[ROLES][OUT_STATES];
	u64 cause[ROLES][CAUSES];
	u64 preempted_off_ns[ROLES][CAUSES];
	u64 requests[ROLES][REQUESTS];
	/* The time from there until the task left. */
	u64 request_ns[ROLES][DUES];
	u64 on_cpu_ns[ROLES];
	u64 wait_ns[ROLES];
	u64 off_cpu_ns[ROLES];
	u64 migrated[ROLES];
	u64 inferred;
	u64 causes_mistaken;
	u64 clock_backwards;
	u64 no_storage;
	u64 no_wakeup;
	u64 classified[HELD];
	u64 samples[HELD];
	u64 unreadable_stack;
	u64 matrix_full;
	u64 events_lost;
	u64 faults[ROLES][FAULTS];
	/* Faults of which it is not known whether the page was of hugetlbfs, a transparent huge one. */
	u64 unknown_huge[2];
	u64 first_touch[ROLES];
	u64 fault_ns[ROLES];
	/* Programs that watched processes called. */
	u64 executed;
	u64 off_state_ns[ROLES][OUT_STATES];
	u64 stacks_lost;
	u64 stacks_lost_ns;
	/* Time that the account had no room for. */
	u64 account_full_ns;
};
SHARED(struct, counts);

/* Counts of one section. */
struct section_counts {
	u64 left[2][CONTEXTS];
	/* Of holders that left at the user boundary: what the kernel was entered for. */
	u64 left_after[ENTRIES];
	u64 off_cpu_ns[CONTEXTS];
	u64 cause[CAUSES];
	u64 samples[2];
	/* Waiters for a lock of this section, wherever they are, while its holder is off the CPU. */
	u64 samples_behind;
	/* Waiters of which it is not known whether the holder was off the CPU. */
	u64 samples_unknown;
	u64 faults;
	u64 fault_ns;
};
SHARED(struct, section_counts);

struct histogram {
	u64 buckets[BUCKETS];
};
SHARED(struct, histogram);

struct coarse_histogram {
	u64 buckets[BUCKETS / COARSE];
};
SHARED(struct, coarse_histogram);

/* Histograms of each role: run-queue wait after a wake-up and after a preemption, time on the CPU, page faults, time off
 * the CPU by place. */
enum role_histogram {
	HISTOGRAM_WAIT_WOKEN,
	HISTOGRAM_WAIT_PREEMPTED,
	HISTOGRAM_ON,
	HISTOGRAM_FAULT,
	HISTOGRAM_OFF,
	HISTOGRAMS = HISTOGRAM_OFF + OUT_STATES,
};
SHARED(enum, role_histogram);
/* Histograms of each section. */
enum section_histogram { SECTION_OFF, SECTION_FAULT, SECTION_HISTOGRAMS };
SHARED(enum, section_histogram);

/* Set by the loader before the programs are verified, so that parts that are off are dropped. */
const volatile u32 roles = 1;
const volatile u32 shards = 1;
/* Whether several CPUs count into one shard. */
const volatile u32 shared_shards = 0;
const volatile u32 want_sections = 0;
const volatile u32 want_faults = 0;
/* Whether faults are timed in slices of the time only. */
const volatile u32 samples_faults = 0;
const volatile u32 want_residuals = 0;
const volatile u32 want_requests = 0;
const volatile u32 want_kworkers = 0;
const volatile u32 want_timeline = 0;
const volatile u32 want_stacks = 0;
const volatile u32 want_account = 0;
const volatile u32 want_tasks = 0;
/* Since 6.16 sched_exit_tp runs when a task is back, in its own context. */
const volatile u32 has_sched_exit = 0;
/* Since 5.18 the tracepoint gives the state that __schedule saw. */
const volatile u32 switch_has_state = 0;
/* Whether a program at __resched_curr sees why a task is asked to leave. */
const volatile u32 has_resched = 0;
/* The function of the timer that is the tick (time/tick-sched.c:tick_nohz_handler). */
const volatile u64 tick_function = 1;
/* The code that charges a task for its time (sched/fair.c:update_curr); begin 0 where it is not known. */
const volatile u64 charge_begin = 0;
const volatile u64 charge_length = 0;
/* What differs between architectures (crates/holdup-evidence/src/arch). Places in struct pt_regs, bytes: */
const volatile u32 regs_ip = 0;
const volatile u32 regs_sp = 0;
const volatile u32 regs_bp = 0;
/* The register of the return address, where a call leaves it in one. */
const volatile u32 regs_lr = 0;
/* The first of those that functions keep for their callers. */
const volatile u32 regs_saved = 0;
const volatile u32 regs_syscall = 0;
const volatile u32 regs_argument1 = 0;
const volatile u32 regs_argument2 = 0;
const volatile u32 regs_argument3 = 0;
const volatile u32 regs_argument4 = 0;
/* The register that shows whether the code is of 64 bits: these of its bits are this value. */
const volatile u32 regs_mode = 0;
const volatile u32 mode_mask = 0;
const volatile u32 mode_of_64_bits = 0;
/* The system call futex. */
const volatile u32 futex_number = 0;
/* Bits of return addresses that are a signature: they are zeros in an address of a program, and ones in one of the kernel. */
const volatile u64 signature_bits = 0;
const volatile u32 sections = 0;
/* Whether a huge page stands out from the batches that the kernel adds up (collectors/faults/faults.bpf.h). */
const volatile u32 counts_transparent = 0;

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_state);
} tasks SEC(".maps");

struct watched {
	u64 wait_event_at;
	u64 backend_type_at;
	u32 role;
	u32 image;
	/* What the process was waiting for when it was found, and its kind. */
	u32 wait_event;
	u32 kind;
};
SHARED(struct, watched);

/* Processes to watch, by tgid, as the loader found them; and the images of those that called exec. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct watched);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counts);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct histogram);
} histograms SEC(".maps");

/* The waits for each CPU, where CPUs share shards: there the histograms do not say it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct coarse_histogram);
} cpu_waits SEC(".maps");

/* Tables whose rows have names of tasks. Anybody can rename a process or fork without end, so each window bounds the rows
 * with a name in a table, those of one process that is not under test, and those of it that have new names: the
 * rest are one name, and each sum keeps its row. Tables have room for more, where the name is that one. At the edge of a window rows make
 * room for those of the next one (counts.rs:named_since_last). */
enum named_table { NAMED_PAIRS, NAMED_PREEMPTERS, NAMED_HOGS, NAMED_BEHIND, NAMED_WOKEN, NAMED_TABLES };
SHARED(enum, named_table);
enum named_limit { NAMED_ROWS = 3072, NAMED_ROWS_OF_A_PROCESS = 1024, NAMED_ROWS_WITH_NEW_NAMES = 256 };
SHARED(enum, named_limit);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NAMED_TABLES);
	__type(key, u32);
	__type(value, u32);
} named_rows SEC(".maps");

/* A name of a process in a table; without one, all of them. */
struct namer {
	u32 table;
	u32 tgid;
	u64 name[2];
};
SHARED(struct, namer);

/* Rows of this window by namer. Elements are allocated beforehand: programs at a switch run with the lock of a run queue. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct namer);
	__type(value, u32);
} namers SEC(".maps");

/* Adds a row; 0 where there is no room for it. */
INLINE u32 is_counted_for(struct namer *namer)
{
	u32 *known = bpf_map_lookup_elem(&namers, namer), one = 1;

	if (!known)
		return !bpf_map_update_elem(&namers, namer, &one, BPF_NOEXIST);
	__sync_fetch_and_add(known, 1);
	return 1;
}

/* Whether the table takes another row with this name of a process; process 0 stands for tasks under test and idle ones, which are no strangers. */
CHECKED_ONCE u32 may_name(u32 table, u32 tgid, u64 first, u64 second)
{
	struct namer all = { .table = table, .tgid = tgid }, namer = { .table = table, .tgid = tgid, .name = { first, second } };
	u32 *rows = bpf_map_lookup_elem(&named_rows, &table), *own, most = NAMED_ROWS_OF_A_PROCESS;

	if (!rows || *rows >= NAMED_ROWS)
		return 0;
	if (tgid) {
		own = bpf_map_lookup_elem(&namers, &all);
		if (!bpf_map_lookup_elem(&namers, &namer))
			most = NAMED_ROWS_WITH_NEW_NAMES;
		if ((own && *own >= most) || !is_counted_for(&namer) || !is_counted_for(&all))
			return 0;
	}
	__sync_fetch_and_add(rows, 1);
	return 1;
}

/* The one name of the rest: no task has it, because it does not end within COMM. */
const volatile char others[COMM + 1] = "(other programs)";

/* Looks a row up whose key has the name of a task of this process in it. Where there is none, and the table takes none with that name, the
 * key gets the name of the rest. */
INLINE void *find_named(void *map, void *key, char *by, u32 table, u32 tgid)
{
	void *known = bpf_map_lookup_elem(map, key);
	u64 name[2];

	if (likely(known))
		return known;
	__builtin_memcpy(name, by, COMM);
	if (may_name(table, tgid, name[0], name[1]))
		return NULL;
#pragma unroll
	for (u32 i = 0; i < COMM; i++)
		by[i] = others[i];
	return bpf_map_lookup_elem(map, key);
}

/* Whether the task's group, or one above it, has used its CPU time up (sched/fair.c:throttled_hierarchy). */
INLINE u32 is_throttled(struct task_struct *task)
{
	struct task_struct___throttled *throttled = (void *)task;

	if (has_field(throttled->throttled))
		return throttled->throttled;
	if (has_field(task->se.cfs_rq->throttle_count))
		return task->se.cfs_rq->throttle_count > 0;
	return 0;
}

/* Whether a task that sleeps in this state does so uninterruptibly. */
INLINE u32 is_blocked(u32 state)
{
	return state & TASK_UNINTERRUPTIBLE && !(state & TASK_NOLOAD);
}

INLINE struct task_state *state_of(struct task_struct *task)
{
	return bpf_task_storage_get(&tasks, task, NULL, 0);
}

/* The role of a watched task, as an index. The mask is an instruction in assembly: the compiler's own comparison is followed by
 * a copy of the value, of which the verifier of 6.1 does not know that it was compared. 64 bits, because those
 * before 5.16 forget the bounds of narrower values that were kept on the stack. */
INLINE u64 role_of(struct task_state *state)
{
	u64 role = state->role;

	__asm__ volatile("%0 &= %1" : "+r"(role) : "i"(ROLES - 1));
	return role;
}

INLINE u32 shard(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return shared_shards ? cpu % shards : cpu;
}

INLINE struct counts *my_counts(u32 of)
{
	return bpf_map_lookup_elem(&counts, &of);
}

INLINE void add(u64 *to, u64 amount)
{
	if (shared_shards)
		__sync_fetch_and_add(to, amount);
	else
		*to += amount;
}

INLINE u64 *one_of(u64 *counts, u32 index, u32 limit)
{
	return &counts[index < limit ? index : limit - 1];
}

/* The highest set bit of a value that is not 0. */
INLINE u32 highest_bit(u64 value)
{
	u32 bit = 0;

	if (value >> 32) { bit += 32; value >>= 32; }
	if (value >> 16) { bit += 16; value >>= 16; }
	if (value >> 8) { bit += 8; value >>= 8; }
	if (value >> 4) { bit += 4; value >>= 4; }
	if (value >> 2) { bit += 2; value >>= 2; }
	return bit + (value >> 1);
}

CHECKED_ONCE u32 bucket_of(u64 ns)
{
	u32 bit;

	if (ns < 128)
		return ns;
	if (ns >> 42)
		return BUCKETS - 1;
	bit = highest_bit(ns);
	return 128 + (bit - 7) * 64 + ((ns >> (bit - 6)) & 63);
}

INLINE void record(u32 index, u64 ns, u32 is_shared)
{
	struct histogram *h = bpf_map_lookup_elem(&histograms, &index);
	u32 bucket = bucket_of(ns);

	if (!h || bucket >= BUCKETS)
		return;
	if (is_shared)
		__sync_fetch_and_add(&h->buckets[bucket], 1);
	else
		h->buckets[bucket] += 1;
}

/* A wait for this CPU, which alone counts here, in a switch. */
INLINE void record_cpu_wait(u64 ns)
{
	u32 cpu = bpf_get_smp_processor_id(), bucket = bucket_of(ns) / COARSE;
	struct coarse_histogram *h = bpf_map_lookup_elem(&cpu_waits, &cpu);

	/* Else the division and the size of a bucket become a mask, of whose result the kernel's checker knows the end too late. */
	barrier(bucket);
	if (h && bucket < BUCKETS / COARSE)
		h->buckets[bucket] += 1;
}
