//! The read-write lock, the condition variable, and what is done once.

use holdfast::{Clock, Condvar, Deadline, Mutex, Once, RawRwLock, RwLock};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

fn soon(clock: Clock) -> Deadline {
    Deadline::after(Duration::from_millis(1), clock)
}

#[test]
fn readers_see_whole_writes() {
    let pair = RwLock::<_>::new((0u32, 0u32));
    std::thread::scope(|scope| {
        for n in 0..8 {
            let pair = &pair;
            scope.spawn(move || {
                for _ in 0..4_000 {
                    if n < 2 {
                        let mut pair = pair.write();
                        pair.0 += 1;
                        pair.1 += 1;
                    } else {
                        let pair = pair.read();
                        assert_eq!(pair.0, pair.1);
                    }
                }
            });
        }
    });
    assert_eq!(pair.into_inner(), (8_000, 8_000));
}

#[test]
fn a_read_lock_excludes_writers_and_a_write_lock_all() {
    let lock = RwLock::<_>::new(1);
    let reads = (lock.read(), lock.try_read());
    assert!(reads.1.is_some() && lock.try_write().is_none());
    for clock in [Clock::Monotonic, Clock::Realtime] {
        assert!(lock.try_write_until(&soon(clock)).is_none());
    }
    drop(reads);
    // The writers that gave up keep no reader out.
    assert!(lock.try_read_until(&soon(Clock::Monotonic)).is_some());
    *lock.write() += 1;
    let write = lock.write();
    assert!(lock.try_read().is_none() && lock.try_read_until(&soon(Clock::Monotonic)).is_none());
    assert!(lock.try_write().is_none() && lock.raw().is_locked_exclusive());
    drop(write);
    assert_eq!(*lock.read(), 2);
    assert!(!lock.raw().is_locked());
}

/// Readers and writers that give up leave bits behind; no sleeper may be forgotten for them.
#[test]
fn readers_and_writers_that_give_up_leave_the_others_running() {
    let lock = RawRwLock::<holdfast::Private>::new();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let lock = &lock;
            scope.spawn(move || {
                for _ in 0..2_000 {
                    let deadline = Deadline::after(Duration::from_micros(30), Clock::Monotonic);
                    let reads = n % 2 == 0;
                    let is_ours = match n / 2 {
                        0 | 1 if reads => lock.lock_shared_until(&deadline),
                        0 | 1 => lock.lock_exclusive_until(&deadline),
                        _ if reads => {
                            lock.lock_shared();
                            true
                        }
                        _ => {
                            lock.lock_exclusive();
                            true
                        }
                    };
                    // SAFETY: it was taken in the same way.
                    unsafe {
                        match is_ours {
                            true if reads => lock.unlock_shared(),
                            true => lock.unlock_exclusive(),
                            false => {}
                        }
                    }
                }
            });
        }
    });
    assert!(!lock.is_locked());
}

#[test]
fn a_queue_behind_a_condition_variable_passes_all_on() {
    let (queue, changed) = (Mutex::<_>::new((Vec::new(), 0u32)), Condvar::<holdfast::Private>::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    let mut queue = queue.lock();
                    while queue.0.is_empty() {
                        changed.wait(&mut queue);
                    }
                    queue.1 += queue.0.pop().expect("it is not empty");
                }
            });
        }
        for _ in 0..4_000 {
            queue.lock().0.push(1);
            changed.notify_one();
        }
        changed.notify_all();
    });
    assert_eq!(queue.lock().1, 4_000);
}

#[test]
fn a_wait_for_nothing_ends_on_both_clocks() {
    let (lock, changed) = (Mutex::<_>::new(()), Condvar::<holdfast::Private>::new());
    let mut guard = lock.lock();
    for clock in [Clock::Monotonic, Clock::Realtime] {
        assert!(!changed.wait_until(&mut guard, &soon(clock)));
        assert!(lock.try_lock().is_none(), "the mutex was taken again");
    }
}

#[test]
fn once_is_once_and_after_a_panic_again() {
    let (once, runs) = (Once::<holdfast::Private>::new(), AtomicU32::new(0));
    let panicked = std::thread::scope(|scope| scope.spawn(|| once.call(|| panic!("inside"))).join().is_err());
    assert!(panicked && !once.is_done());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                once.call(|| {
                    runs.fetch_add(1, SeqCst);
                });
                assert_eq!(runs.load(SeqCst), 1);
            });
        }
    });
    assert!(once.is_done());
}
