//! The mutex between threads.

use holdfast::{Clock, Deadline, Mutex, RawMutex, Shared};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn one_thread_at_a_time_is_in() {
    static COUNT: Mutex<u64> = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..20_000).for_each(|_| *COUNT.lock() += 1));
        }
    });
    assert_eq!(*COUNT.lock(), 160_000);
}

#[test]
fn a_held_lock_is_refused_and_times_out_on_both_clocks() {
    let lock = RawMutex::<Shared>::new();
    assert!(lock.try_lock() && !lock.try_lock() && lock.is_locked());
    for clock in [Clock::Monotonic, Clock::Realtime] {
        assert!(!lock.lock_until(&Deadline::after(Duration::from_millis(1), clock)));
    }
    // SAFETY: it was taken above.
    unsafe { lock.unlock() };
    assert!(!lock.is_locked() && lock.lock_until(&Deadline::after(Duration::ZERO, Clock::Monotonic)));
}

/// Waiters that give up must leave no grant and no wake-up behind.
#[test]
fn waiters_that_give_up_among_others_lose_nothing() {
    let lock = Mutex::<u64>::new(0);
    let taken = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for n in 0..8u64 {
            let (lock, taken) = (&lock, &taken);
            scope.spawn(move || {
                for _ in 0..3_000 {
                    if n % 2 == 0 {
                        *lock.lock() += 1;
                        taken.fetch_add(1, SeqCst);
                    } else if let Some(mut guard) = lock.try_lock_for(Duration::from_micros(20)) {
                        *guard += 1;
                        taken.fetch_add(1, SeqCst);
                    }
                }
            });
        }
    });
    assert_eq!(*lock.lock(), u64::from(taken.load(SeqCst)));
    assert_eq!(format!("{:?}", lock.raw()), "RawMutex { is_locked: false }");
}

#[test]
fn a_panic_gives_the_lock_back() {
    let lock = Mutex::<u32>::new(1);
    let panicked = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let _guard = lock.lock();
                panic!("inside");
            })
            .join()
            .is_err()
    });
    assert!(panicked);
    assert_eq!(*lock.lock(), 1);
    assert_eq!(lock.into_inner(), 1);
}

#[cfg(not(feature = "debug"))]
#[test]
fn a_lock_that_is_given_back_twice_is_free() {
    let lock = holdfast::RawMutex::<holdfast::Shared>::new();
    for _ in 0..200 {
        assert!(lock.try_lock());
        // SAFETY: the second time it is misuse, which must not leave a word that no thread gets.
        unsafe {
            lock.unlock();
            lock.unlock();
        }
    }
    assert!(!lock.is_locked());
}
