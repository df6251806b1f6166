//! Programs with spin locks of several makes, which nothing declares: the functions that take them are not named.

use crate::situations::programs::{Ending, started};
use crate::situations::sources::built;
use crate::situations::{QUIET, Situation, answer, cpus, needs_account, record, seconds};
use holdup_model::BundleData;
use holdup_testkit::ignore;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SPINNING: Situation = Situation { never: &["mutex", "heavyweight-lock", "slow-disk"], ..QUIET };

static PREEMPTED: Situation = Situation {
    name: "spin lock whose holder is off the CPU",
    first: &["preempted-holder", "oversubscription"],
    says: "",
    ..SPINNING
};

/// Where other work takes a CPU, the holder that is waited for is off it too.
static RUNNING: Situation = Situation {
    name: "spin lock whose holder runs",
    first: &["spin-wait", "preempted-holder", "oversubscription"],
    says: "",
    ..SPINNING
};

/// `program SHAPE THREADS FILE`: threads want one lock of that shape; in the file they add up for how long they held it, ns,
/// and for how long of that they were on a CPU. With the shape `two` one more thread sleeps with another lock.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct thing { long name[5]; int lock; };
static struct thing things[2];
static pthread_spinlock_t posix;
static volatile char byte;
static struct { unsigned next, turn; } tickets;
static uint64_t *held;

static __attribute__((noinline)) void my_lock(int *lock)
{
	while (!__sync_bool_compare_and_swap(lock, 0, 1))
		__builtin_ia32_pause();
}

static __attribute__((noinline)) void my_unlock(int *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* No code of the vDSO runs with the lock: that is in no map. */
static uint64_t now(clockid_t clock)
{
	struct timespec t;

	syscall(SYS_clock_gettime, clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static __attribute__((noinline)) void work(int times)
{
	for (volatile int i = 0; i < times; i++)
		;
}

static __attribute__((noinline)) void section(void)
{
	uint64_t wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);

	work(100000);
	held[1] += now(CLOCK_THREAD_CPUTIME_ID) - cpu;
	held[0] += now(CLOCK_MONOTONIC) - wall;
}

static void *own(void *p)
{
	struct thing *thing = p;

	for (;; work(20000)) {
		my_lock(&thing->lock);
		section();
		my_unlock(&thing->lock);
	}
}

static void *of_library(void *p)
{
	for (;; work(20000)) {
		pthread_spin_lock(&posix);
		section();
		pthread_spin_unlock(&posix);
	}
	return p;
}

static void *exchange(void *p)
{
	for (;; work(20000)) {
		while (__atomic_exchange_n(&byte, 1, __ATOMIC_ACQUIRE))
			while (byte)
				__builtin_ia32_pause();
		section();
		__atomic_store_n(&byte, 0, __ATOMIC_RELEASE);
	}
	return p;
}

static void *ticket(void *p)
{
	for (;; work(20000)) {
		unsigned mine = __atomic_fetch_add(&tickets.next, 1, __ATOMIC_RELAXED);

		while (__atomic_load_n(&tickets.turn, __ATOMIC_ACQUIRE) != mine)
			__builtin_ia32_pause();
		section();
		__atomic_store_n(&tickets.turn, mine + 1, __ATOMIC_RELEASE);
	}
	return p;
}

static void *sleeper(void *p)
{
	struct thing *thing = p;

	for (;; usleep(1000)) {
		my_lock(&thing->lock);
		usleep(50000);
		my_unlock(&thing->lock);
	}
}

int main(int argc, char **argv)
{
	int threads = atoi(argv[2]), file = open(argv[3], O_RDWR | O_CREAT, 0600);
	pthread_t thread;
	void *(*does)(void *) = !strcmp(argv[1], "library") ? of_library
		: !strcmp(argv[1], "exchange") ? exchange
		: !strcmp(argv[1], "ticket") ? ticket : own;

	if (ftruncate(file, 4096))
		return 1;
	held = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	pthread_spin_init(&posix, 0);
	if (!strcmp(argv[1], "two"))
		pthread_create(&thread, 0, sleeper, &things[1]);
	while (threads--)
		pthread_create(&thread, 0, does, &things[0]);
	return pthread_join(thread, 0);
}
"#;

/// Starts the program in a folder: as it is, without symbols, or where other processes see neither it nor its file by that
/// path and number.
type Start = fn(&Path) -> Command;

fn usual(folder: &Path) -> Command {
    Command::new(folder.join("program"))
}

fn without_symbols(folder: &Path) -> Command {
    let stripped = Command::new("strip").arg("-s").arg(folder.join("program")).status();
    assert!(stripped.unwrap_or_else(|error| ignore(format!("strip: {error}"))).success());
    usual(folder)
}

fn in_a_container(folder: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "sh", "-c"]);
    command.arg("mount -t tmpfs none \"$1\" && cp program \"$1/p\" && shift && exec \"$0/p\" \"$@\"");
    let inside = folder.join("inside");
    std::fs::create_dir(&inside).expect("a folder");
    command.arg(&inside).arg(&inside).current_dir(folder);
    command
}

/// The record of a program, and the part of the time with the lock that its holders were off the CPU.
fn watched(shape: &str, threads: u32, start: Start) -> (BundleData, f64) {
    needs_account();
    let folder = built(("p.c", SOURCE), &["cc", "-O2", "-pthread"]);
    let held = folder.path().join("held");
    let program: Ending = started(start(folder.path()).args([shape, &threads.to_string()]).arg(&held));
    std::thread::sleep(Duration::from_millis(300));
    if !held.exists() {
        ignore("the program cannot be started in namespaces of its own here");
    }
    let before = sums(&held);
    let bundle = record::of(&[program.0.id()], record::MANY);
    let after = sums(&held);
    let (held_ns, on_cpu_ns) = (after[0] - before[0], after[1] - before[1]);
    (bundle, 1.0 - on_cpu_ns as f64 / held_ns as f64)
}

fn sums(path: &Path) -> [u64; 2] {
    let bytes = std::fs::read(path).expect("the program keeps it");
    [0, 8].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes")))
}

/// Waiting: all, behind a holder off the CPU, and not known, s.
fn waiting(bundle: &BundleData) -> [f64; 3] {
    ["waiter_s", "waiter_behind_off_cpu_holder_s", "waiter_not_known_s"].map(|item| seconds(bundle, item, |_| true))
}

/// Of the time that waiters spin, the part behind a holder off the CPU: by the program, and as it is seen. While the holder is
/// on a CPU one fewer can spin.
fn compared(situation: &Situation, shape: &str, threads: u32, start: Start) -> (f64, f64) {
    let (bundle, off) = watched(shape, threads, start);
    answer(situation, &bundle);
    let [all, behind, unknown] = waiting(&bundle);
    let spinners = |cpus: u32| f64::from(cpus.min(threads - 1));
    let (while_off, while_on) = (off * spinners(cpus()), (1.0 - off) * spinners(cpus() - 1));
    let (truth, seen) = (while_off / (while_off + while_on), behind / all);
    println!("  {shape}: {truth:.3} of the waiting by the program, {seen:.3} seen, {:.3} not known", unknown / all);
    assert!(all > 0.0 && unknown < 0.1 * all, "{all} s, {unknown} s not known");
    (truth, seen)
}

fn agrees(situation: &Situation, shape: &str, threads: u32, start: Start) {
    let (truth, seen) = compared(situation, shape, threads, start);
    assert!((seen - truth).abs() < 0.2, "{truth} by the program, {seen} seen");
}

pub(crate) fn a_lock_function_of_its_own() {
    agrees(&PREEMPTED, "own", 4 * cpus(), usual);
}

pub(crate) fn a_spin_lock_of_the_library_in_a_container() {
    agrees(&PREEMPTED, "library", 4 * cpus(), in_a_container);
}

pub(crate) fn an_exchange_in_a_function_without_a_name() {
    agrees(&PREEMPTED, "exchange", 4 * cpus(), without_symbols);
}

/// Those in the line also wait while the lock is given to one that is off the CPU, and has not entered the section: that is
/// time behind no holder.
pub(crate) fn a_ticket_lock() {
    let (truth, seen) = compared(&RUNNING, "ticket", cpus(), usual);
    assert!(seen > 0.0 && seen < truth + 0.1, "{truth} by the program, {seen} seen");
}

/// A holder of another lock sleeps meanwhile: it is not the one that is waited for.
pub(crate) fn a_holder_of_another_lock_sleeps() {
    if cpus() < 2 {
        ignore("a holder that runs and one that spins need two CPUs");
    }
    agrees(&RUNNING, "two", cpus(), usual);
}
