//! The read-write lock, the condition variable, what is done once, and a kernel that forbids.

use holdfast::{Clock, Condvar, Deadline, Missing, Mutex, Once, RawRwLock, RwLock, Status};
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

/// The count of readers at its limit: no reader enters, none overflows it, and one that leaves lets the next in.
#[test]
fn a_read_lock_that_is_held_as_often_as_it_can_be_lets_no_reader_in() {
    const MOST: u32 = (1 << 30) - 2;
    let lock = RawRwLock::<holdfast::Private>::new();
    let state = std::ptr::from_ref(&lock).cast::<AtomicU32>();
    // SAFETY: the first word is the state (the table in src/rwlock/raw.rs), of the same size and alignment.
    let state = unsafe { &*state };
    state.store(MOST, SeqCst);
    assert!(!lock.try_lock_shared() && !lock.try_lock_exclusive() && !lock.is_locked_exclusive());
    assert!(!lock.lock_shared_until(&soon(Clock::Monotonic)));
    assert_eq!(state.load(SeqCst) & ((1 << 30) - 1), MOST, "the count did not change");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| lock.lock_shared());
        // SAFETY: the state says that it is held so.
        unsafe { lock.unlock_shared() };
        // The reader that waits is woken when the lock is free; here the others leave without a look at it.
        state.fetch_sub(MOST - 2, SeqCst);
        // SAFETY: as above.
        unsafe { lock.unlock_shared() };
        reader.join().expect("it enters");
    });
    assert!(lock.is_locked());
}

/// Another process that writes nonsense into a lock: attempts with a deadline end, and no process is harmed. It rests between its writes: an
/// attempt that finds another word at each look does not come to its deadline. The feature `debug` complains, rightly.
#[cfg(not(feature = "debug"))]
#[test]
fn forged_words_make_attempts_fail_or_time_out_and_nothing_worse() {
    #[repr(C)]
    struct Page {
        mutex: holdfast::RawMutex<holdfast::Shared>,
        rwlock: RawRwLock<holdfast::Shared>,
        cond: Condvar<holdfast::Shared>,
    }
    let page = Page { mutex: holdfast::RawMutex::new(), rwlock: RawRwLock::new(), cond: Condvar::new() };
    let words = std::ptr::from_ref(&page).cast::<AtomicU32>();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let page = &page;
        // SAFETY: the page has five words, which are atomic.
        let words = unsafe { std::slice::from_raw_parts(words, size_of::<Page>() / 4) };
        let is_over = &is_over;
        scope.spawn(move || {
            let mut random = 0x9e37_79b9u32;
            while !is_over.load(SeqCst) {
                for word in words {
                    random ^= random << 13;
                    random ^= random >> 17;
                    random ^= random << 5;
                    word.store(random, SeqCst);
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let users: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    for _ in 0..200 {
                        let deadline = Deadline::after(Duration::from_micros(50), Clock::Monotonic);
                        // SAFETY: each was taken so; what the words say is another's nonsense.
                        unsafe {
                            if page.mutex.lock_until(&deadline) {
                                page.cond.notify_one();
                                page.mutex.unlock();
                            }
                            if page.rwlock.lock_shared_until(&deadline) {
                                page.rwlock.unlock_shared();
                            }
                            if page.rwlock.lock_exclusive_until(&deadline) {
                                page.rwlock.unlock_exclusive();
                            }
                            if page.mutex.try_lock() {
                                page.mutex.unlock();
                            }
                        }
                    }
                })
            })
            .collect();
        users.into_iter().for_each(|user| user.join().expect("no attempt panics"));
        is_over.store(true, SeqCst);
    });
}

/// Forbids rseq(2), prctl(2) and rseq_slice_yield to the calling thread, for good.
fn forbid_rseq() {
    let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let is = |number: i64, jt| statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, 0, number as u32);
    let mut filter = [
        // seccomp_data begins with the number of the call.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        is(libc::SYS_rseq, 3),
        is(libc::SYS_prctl, 2),
        is(471, 1),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which is checked there.
    let codes = unsafe {
        [
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
        ]
    };
    assert_eq!(codes, [0, 0], "{}", std::io::Error::last_os_error());
}

#[test]
fn a_filter_that_forbids_rseq_leaves_the_locks_and_is_named() {
    static COUNT: Mutex<u32> = Mutex::new(0);
    let work = || {
        forbid_rseq();
        for _ in 0..10_000 {
            let _hold = holdfast::hold();
            *COUNT.lock() += 1;
        }
        assert!(!holdfast::hold().asks());
        holdfast::status()
    };
    let threads = [(); 4].map(|()| std::thread::spawn(work));
    // auxvec.h: AT_RSEQ_FEATURE_SIZE. Where the kernel has no extension nothing is asked for, and the filter not met.
    // SAFETY: reads what the kernel gave the process at its begin.
    let has_extension = unsafe { libc::getauxval(27) } >= 33;
    let missing = if has_extension { Missing::Errno(libc::EPERM) } else { Missing::Kernel };
    for thread in threads {
        assert_eq!(thread.join().expect("it does not panic"), Status::Missing(missing));
    }
    assert_eq!(*COUNT.lock(), 40_000);
}
