//! A robust mutex whose holders are killed.

use holdfast::{RobustError, RobustMutex, Taken};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Memory that forked children share.
fn shared<T>() -> &'static T {
    let bytes = size_of::<T>();
    let (may, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping; its zeros are a free lock and zero counts; it is never unmapped.
    unsafe {
        let place = libc::mmap(std::ptr::null_mut(), bytes, may, how, -1, 0);
        assert_ne!(place, libc::MAP_FAILED);
        &*place.cast()
    }
}

#[repr(C)]
struct Page {
    lock: RobustMutex,
    inside: AtomicU32,
    rounds: AtomicU32,
}

/// Forks a child that runs `work` and never returns.
fn child(work: impl Fn()) -> libc::pid_t {
    // SAFETY: the child uses the locks of the page and system calls alone.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        work();
        // SAFETY: ends the child without the parent's handlers.
        unsafe { libc::_exit(0) };
    }
    pid
}

fn wait_for(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: waits for a child of this test.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

fn is_supported(lock: &RobustMutex) -> bool {
    // SAFETY: the page stays mapped.
    match unsafe { lock.lock() } {
        Err(RobustError::Unsupported) => false,
        taken => {
            assert_eq!(taken, Ok(Taken::Whole));
            lock.unlock().expect("it is ours");
            true
        }
    }
}

#[test]
fn misuse_is_an_error_and_changes_nothing() {
    let page: &Page = shared();
    if !is_supported(&page.lock) {
        return;
    }
    assert_eq!(page.lock.unlock(), Err(RobustError::NotOwner));
    // SAFETY: the page stays mapped.
    unsafe {
        assert_eq!(page.lock.lock(), Ok(Taken::Whole));
        assert_eq!(page.lock.lock(), Err(RobustError::Deadlock));
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(page.lock.try_lock(), Err(RobustError::Busy)));
            scope.spawn(|| assert_eq!(page.lock.unlock(), Err(RobustError::NotOwner)));
        });
        page.lock.unlock().expect("it is ours");
    }
}

#[test]
fn the_death_of_an_owner_is_reported_and_data_that_is_not_repaired_is_given_up() {
    let page: &Page = shared();
    if !is_supported(&page.lock) {
        return;
    }
    let die_with_it = || {
        // SAFETY: the page stays mapped.
        assert!(unsafe { page.lock.lock() }.is_ok());
        // SAFETY: ends the child where it stands.
        unsafe { libc::raise(libc::SIGKILL) };
    };
    // SAFETY: the page stays mapped.
    unsafe {
        wait_for(child(die_with_it));
        assert_eq!(page.lock.lock(), Ok(Taken::OwnerDied));
        page.lock.make_whole().expect("it is ours");
        page.lock.unlock().expect("it is ours");
        assert_eq!(page.lock.lock(), Ok(Taken::Whole));
        page.lock.unlock().expect("it is ours");
        wait_for(child(die_with_it));
        assert_eq!(page.lock.lock(), Ok(Taken::OwnerDied));
        page.lock.unlock().expect("it is ours");
        assert_eq!(page.lock.lock(), Err(RobustError::GivenUp));
        assert_eq!(page.lock.lock(), Err(RobustError::GivenUp));
    }
}

/// The C library's own robust mutexes are in the same list: both kinds must survive a death, held in either order.
#[test]
fn robust_mutexes_of_the_c_library_stay_robust_beside_it() {
    #[repr(C)]
    struct Both {
        first: RobustMutex,
        library: std::cell::UnsafeCell<libc::pthread_mutex_t>,
        last: RobustMutex,
    }
    // SAFETY: each of the three is made for several threads.
    unsafe impl Sync for Both {}
    let both: &Both = shared();
    if !is_supported(&both.first) {
        return;
    }
    // SAFETY: the page stays mapped; the attributes are a local.
    unsafe {
        let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
        libc::pthread_mutexattr_init(&raw mut attributes);
        libc::pthread_mutexattr_setrobust(&raw mut attributes, libc::PTHREAD_MUTEX_ROBUST);
        libc::pthread_mutexattr_setpshared(&raw mut attributes, libc::PTHREAD_PROCESS_SHARED);
        assert_eq!(libc::pthread_mutex_init(both.library.get(), &raw const attributes), 0);
        let killed = child(|| {
            // Taken and given back out of order, so that nodes leave the middle of the list.
            for _ in 0..3 {
                assert!(both.first.lock().is_ok());
                libc::pthread_mutex_lock(both.library.get());
                assert!(both.last.lock().is_ok());
                libc::pthread_mutex_unlock(both.library.get());
                both.first.unlock().expect("it is ours");
                both.last.unlock().expect("it is ours");
            }
            assert!(both.first.lock().is_ok());
            libc::pthread_mutex_lock(both.library.get());
            assert!(both.last.lock().is_ok());
            libc::raise(libc::SIGKILL);
        });
        assert_eq!(wait_for(killed), libc::SIGKILL);
        assert_eq!(both.first.try_lock(), Ok(Taken::OwnerDied));
        assert_eq!(libc::pthread_mutex_trylock(both.library.get()), libc::EOWNERDEAD);
        assert_eq!(both.last.try_lock(), Ok(Taken::OwnerDied));
    }
}

/// Children that count under the lock are killed at random; the rest must go on. A lost wake-up ends the test with the words.
#[test]
fn children_that_are_killed_anywhere_stop_no_other() {
    // More for a longer run by hand.
    let rounds_wanted = std::env::var("HOLDFAST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(200_000u32);
    let page: &Page = shared();
    if !is_supported(&page.lock) {
        return;
    }
    let work = || {
        while page.rounds.load(SeqCst) < rounds_wanted {
            // SAFETY: the page stays mapped.
            match unsafe { page.lock.lock() } {
                Ok(taken) => {
                    let others = page.inside.swap(1, SeqCst);
                    assert!(others == 0 || taken == Taken::OwnerDied, "two are inside");
                    page.rounds.fetch_add(1, SeqCst);
                    page.inside.store(0, SeqCst);
                    page.lock.make_whole().expect("it is ours");
                    page.lock.unlock().expect("it is ours");
                }
                Err(e) => panic!("{e}"),
            }
        }
    };
    let mut children: Vec<libc::pid_t> = (0..6).map(|_| child(work)).collect();
    let (mut seen, mut quiet) = (0, 0);
    for turn in 0.. {
        let rounds = page.rounds.load(SeqCst);
        if rounds >= rounds_wanted {
            break;
        }
        // Half a minute in which no child has entered is a lost wake-up and no slow machine.
        quiet = if rounds == seen { quiet + 1 } else { 0 };
        assert!(quiet < 30_000, "no child enters any more: {:?} inside={:?}", page.lock, page.inside);
        seen = rounds;
        std::thread::sleep(std::time::Duration::from_millis(1));
        let victim = turn % children.len();
        // SAFETY: a child of this test that was not waited for.
        unsafe { libc::kill(children[victim], libc::SIGKILL) };
        wait_for(children[victim]);
        children[victim] = child(work);
    }
    // The same half a minute for each that is left.
    for pid in children {
        let has_ended = (0..30_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            // SAFETY: a child of this test that was not waited for.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) == pid }
        });
        assert!(has_ended, "child {pid} sleeps for ever: {:?} inside={:?}", page.lock, page.inside);
    }
    assert!(is_supported(&page.lock));
}
