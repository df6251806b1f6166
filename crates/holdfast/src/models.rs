//! Interleavings of the locks' atomics, tried by loom on the code that runs.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p holdfast --lib --release`. The kernel's queue is modelled in `futex`; a deadline passes before its
//! sleep begins. A sleeper that no thread wakes is a deadlock, which loom reports and aborts at.

use crate::spin::Late;
use crate::{Clock, Condvar, Deadline, Once, Private, RawMutex, RawRwLock};
use core::time::Duration;
use loom::cell::UnsafeCell;
use loom::sync::Arc;

/// Models of a mutex: without hand-overs and with as many as there can be. One after the other, because it is one switch.
fn with_and_without_hand_overs(models: impl Fn()) {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE_AT_A_TIME.lock();
    for late in [Late::No, Late::WakeAnother, Late::HandOver] {
        *crate::spin::MODELS_ARE_LATE.lock().expect("no panics inside") = late;
        models();
    }
}

/// Runs `work` as threads 0 to `threads`, in all interleavings with at most `preemptions`.
fn explore<T: Send + Sync + 'static>(
    preemptions: usize,
    make: fn() -> T,
    threads: usize,
    work: fn(&T, usize),
    end: fn(&T),
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let shared = Arc::new(make());
        let others: Vec<_> = (1..threads)
            .map(|n| {
                let shared = shared.clone();
                loom::thread::spawn(move || work(&shared, n))
            })
            .collect();
        work(&shared, 0);
        others.into_iter().for_each(|other| other.join().expect("no thread panics"));
        end(&shared);
    });
}

/// A lock and what it guards: loom ends the model when two reach it at the same time.
struct Guarded<L> {
    lock: L,
    count: UnsafeCell<u32>,
}

// SAFETY: the lock under test decides who reaches the count, which loom checks.
unsafe impl<L: Sync> Sync for Guarded<L> {}

impl<L> Guarded<L> {
    fn of(lock: L) -> Self {
        Guarded { lock, count: UnsafeCell::new(0) }
    }
    fn add(&self) {
        // SAFETY: as above.
        self.count.with_mut(|count| unsafe { *count += 1 });
    }
    fn count(&self) -> u32 {
        // SAFETY: as above.
        self.count.with(|count| unsafe { *count })
    }
}

type Mutexed = Guarded<RawMutex<Private>>;
type ReadWritten = Guarded<RawRwLock<Private>>;

fn mutexed() -> Mutexed {
    Guarded::of(RawMutex::new())
}

fn read_written() -> ReadWritten {
    Guarded::of(RawRwLock::new())
}

fn passed() -> Deadline {
    Deadline::after(Duration::ZERO, Clock::Monotonic)
}

fn lock_and_add(shared: &Mutexed, _thread: usize) {
    shared.lock.lock();
    shared.add();
    // SAFETY: it was taken above.
    unsafe { shared.lock.unlock() };
}

#[test]
fn a_mutex_lets_one_in_and_loses_no_wake_up() {
    with_and_without_hand_overs(|| {
        explore(
            5,
            mutexed,
            2,
            |shared, n| (0..2).for_each(|_| lock_and_add(shared, n)),
            |shared| assert_eq!(shared.count(), 4),
        );
        explore(3, mutexed, 3, lock_and_add, |shared| assert_eq!(shared.count(), 3));
        explore(
            2,
            mutexed,
            3,
            |shared, n| (0..2).for_each(|_| lock_and_add(shared, n)),
            |shared| assert_eq!(shared.count(), 6),
        );
    });
}

/// One of three gives up: what it leaves in the word must hurt neither of the others.
#[test]
fn a_mutex_survives_waiters_that_give_up() {
    fn work(shared: &Mutexed, thread: usize) {
        if thread != 1 {
            (0..2).for_each(|_| lock_and_add(shared, thread));
        } else if shared.lock.lock_until(&passed()) {
            shared.add();
            // SAFETY: it was taken above.
            unsafe { shared.lock.unlock() };
        }
    }
    with_and_without_hand_overs(|| {
        explore(3, mutexed, 3, work, |shared| assert!(!shared.lock.is_locked()));
        explore(4, mutexed, 2, work, |shared| assert!(!shared.lock.is_locked()));
    });
}

#[test]
fn a_read_write_lock_lets_one_writer_in_and_loses_no_wake_up() {
    fn work(shared: &ReadWritten, thread: usize) {
        // SAFETY: it was taken in the same way.
        unsafe {
            if thread == 0 {
                shared.lock.lock_shared();
                assert!(shared.count() <= 2);
                shared.lock.unlock_shared();
            } else {
                shared.lock.lock_exclusive();
                shared.add();
                shared.lock.unlock_exclusive();
            }
        }
    }
    explore(5, read_written, 2, work, |shared| assert_eq!(shared.count(), 1));
    explore(3, read_written, 3, work, |shared| assert_eq!(shared.count(), 2));
}

fn read_or_write(shared: &ReadWritten, writes: bool) {
    // SAFETY: it was taken in the same way.
    unsafe {
        if writes {
            shared.lock.lock_exclusive();
            shared.add();
            shared.lock.unlock_exclusive();
        } else {
            shared.lock.lock_shared();
            shared.count();
            shared.lock.unlock_shared();
        }
    }
}

/// Readers may have come while a writer waited, and sleep when the last reader leaves.
#[test]
fn readers_and_writers_all_come_to_their_end() {
    explore(3, read_written, 3, |shared, n| read_or_write(shared, n == 2), |shared| assert_eq!(shared.count(), 1));
    explore(2, read_written, 4, |shared, n| read_or_write(shared, n % 2 == 0), |shared| assert_eq!(shared.count(), 2));
}

/// A writer that gives up leaves its bit: readers must not sleep for ever behind it.
#[test]
fn a_read_write_lock_survives_writers_that_give_up() {
    fn work(shared: &ReadWritten, thread: usize) {
        // SAFETY: it was taken in the same way.
        unsafe {
            if thread != 1 {
                shared.lock.lock_shared();
                shared.count();
                shared.lock.unlock_shared();
            } else if shared.lock.lock_exclusive_until(&passed()) {
                shared.add();
                shared.lock.unlock_exclusive();
            }
        }
    }
    explore(3, read_written, 3, work, |shared| assert!(!shared.lock.is_locked()));
}

#[test]
fn a_condition_variable_loses_no_notification() {
    struct Shared {
        guarded: Mutexed,
        changed: Condvar<Private>,
    }
    fn work(shared: &Shared, thread: usize) {
        let Shared { guarded, changed } = shared;
        guarded.lock.lock();
        if thread == 0 {
            guarded.add();
        } else {
            while guarded.count() == 0 {
                // SAFETY: the mutex is held.
                unsafe { changed.wait_raw(&guarded.lock, None) };
            }
        }
        // SAFETY: the mutex is held.
        unsafe { guarded.lock.unlock() };
        if thread == 0 {
            changed.notify_all();
        }
    }
    let make = || Shared { guarded: mutexed(), changed: Condvar::new() };
    with_and_without_hand_overs(|| {
        explore(5, make, 2, work, |shared| assert_eq!(shared.guarded.count(), 1));
        explore(3, make, 3, work, |shared| assert_eq!(shared.guarded.count(), 1));
    });
}

#[test]
fn once_is_done_by_one_and_seen_by_all() {
    fn work(shared: &Guarded<Once<Private>>, _thread: usize) {
        shared.lock.call(|| shared.add());
        assert_eq!(shared.count(), 1);
    }
    explore(5, || Guarded::of(Once::new()), 2, work, |_| {});
    explore(3, || Guarded::of(Once::new()), 3, work, |_| {});
}

/// Looks first and writes then: the mistake that the exploration must find.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_lock_that_lets_two_in_is_found() {
    fn work(shared: &Guarded<crate::futex::Word>, _thread: usize) {
        use core::sync::atomic::Ordering::{Acquire, Release};
        if shared.lock.load(Acquire) == 0 {
            shared.lock.swap(1, Release);
            shared.add();
        }
    }
    explore(2, || Guarded::of(crate::futex::Word::new(0)), 2, work, |_| {});
}
