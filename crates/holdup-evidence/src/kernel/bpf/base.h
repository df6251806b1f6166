/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* What BPF programs of holdup need of the kernel: helpers by number (include/uapi/linux/bpf.h), the maps' notation, and
 * the few fields that are read. Each structure names only fields that are used; the loader finds their places in the
 * running kernel (CO-RE), so one object serves 5.15 and 7.2. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static __attribute__((always_inline))
/* A function of scalars that the kernel checks once, by itself (bpf/verifier.c:do_check_subprogs, 5.6), and not again on each
 * path that calls it, of which there are too many: what the checker takes is most of the time that a start takes. */
#define CHECKED_ONCE __attribute__((noinline))
#define CORE __attribute__((preserve_access_index))
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name
#define NULL ((void *)0)
/* A type that Rust code shares: build.rs compiles the programs a second time with SHARED_TYPES, reads the types behind these
 * pointers from the BTF, and writes the Rust ones. */
#ifdef SHARED_TYPES
#define SHARED(kind, name) kind name *shared_##name
#else
#define SHARED(kind, name) kind name
#endif
/* The compiler forgets what it knows of a value. */
#define barrier(value) __asm__ volatile("" : "+r"(value))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1024 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_prandom_u32)(void) = (void *)7;
static u32 (*bpf_get_smp_processor_id)(void) = (void *)8;
static long (*bpf_get_stackid)(void *ctx, void *map, u64 flags) = (void *)27;
static long (*bpf_get_stack)(void *ctx, void *to, u32 size, u64 flags) = (void *)67;
static long (*bpf_probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static void *(*bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *record, u64 flags) = (void *)132;
static void (*bpf_ringbuf_discard)(void *record, u64 flags) = (void *)133;
static void *(*bpf_task_storage_get)(void *map, void *task, void *value, u64 flags) = (void *)156;
static void *(*bpf_get_current_task_btf)(void) = (void *)158;
static long (*bpf_task_pt_regs)(void *task) = (void *)175;
static long (*bpf_seq_write)(void *to, const void *data, u32 bytes) = (void *)127;

/* Whether a field is there on this kernel. */
#define has_field(field) __builtin_preserve_field_info(field, 2)

struct list_head;
struct task_struct;

struct cfs_rq {
	int throttle_count;
} CORE;

struct rq {
	struct task_struct *curr;
	int cpu;
} CORE;

struct sched_entity {
	u64 vruntime;
	u64 deadline;
	u64 slice;
	struct sched_entity *parent;
	struct cfs_rq *cfs_rq;
} CORE;

typedef struct {
	s64 counter;
} CORE atomic64_t;

struct percpu_counter {
	s64 count;
} CORE;

/* Pages that a process has, by kind: file, anonymous, swapped out, shared memory (mm_types_task.h). */
enum { MM_FILEPAGES, MM_ANONPAGES, MM_SWAPENTS, MM_SHMEMPAGES, NR_MM_COUNTERS };

/* Since 6.2 they are counted for each CPU and added up when a CPU has many (lib/percpu_counter.c). */
struct mm_struct {
	struct percpu_counter rss_stat[NR_MM_COUNTERS];
} CORE;

struct mm_rss_stat {
	atomic64_t count[NR_MM_COUNTERS];
} CORE;

struct mm_struct___one_sum {
	struct mm_rss_stat rss_stat;
} CORE;

/* With CONFIG_HUGETLB_PAGE. */
struct mm_struct___hugetlb {
	atomic64_t hugetlb_usage;
} CORE;

/* Since 5.16, where the architecture keeps it in the task. */
struct thread_info {
	u32 cpu;
	/* Where it is not kept for each CPU, as on x86. */
	u32 preempt_count;
} CORE;

struct task_struct {
	struct thread_info thread_info;
	/* An int until 7.2, a byte in 7.3: only loads of unsigned numbers are made as wide as the field is. */
	unsigned int on_cpu;
	unsigned int __state;
	unsigned int flags;
	int exit_state;
	int prio;
	int pid;
	int tgid;
	int nr_cpus_allowed;
	char comm[16];
	struct sched_entity se;
	struct mm_struct *mm;
} CORE;

/* Only since 6.18: a throttled task leaves its run queue at the return to user mode (sched/fair.c:throttle_cfs_rq_work). */
struct task_struct___throttled {
	u8 throttled;
} CORE;

struct hrtimer {
	void *function;
} CORE;

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
} CORE;
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} CORE;

enum {
	TASK_RUNNING = 0,
	TASK_INTERRUPTIBLE = 1,
	TASK_UNINTERRUPTIBLE = 2,
	TASK_DEAD = 0x80,
	TASK_NOLOAD = 0x400,
	TASK_NEW = 0x800,
	PF_KTHREAD = 0x00200000,
	PF_IO_WORKER = 0x00000010,
	/* Since 6.4: threads of vhost, and those above. */
	PF_USER_WORKER = 0x00004000,
	PF_WQ_WORKER = 0x00000020,
	/* include/linux/sched/prio.h: priorities below are of the classes stop, dl and rt. */
	MAX_RT_PRIO = 100,
};
