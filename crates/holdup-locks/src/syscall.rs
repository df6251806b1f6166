//! System calls in which a worker waits, made where the wait stands in the code.
//!
//! The user instruction pointer of a task that sleeps in the kernel is that of the instruction after its `syscall`. Made
//! in line, that lies in the waiting part of the measured loop; a function of the C library would put it into the library,
//! several returns away.

use crate::arch::call;
use crate::lock::Sharing;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

#[inline(always)]
fn private(operation: libc::c_int, sharing: Sharing) -> usize {
    let flag = if sharing == Sharing::Threads { libc::FUTEX_PRIVATE_FLAG } else { 0 };
    (operation | flag) as usize
}

/// Sleeps if the word still holds `expected`. May return without reason.
#[inline(always)]
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, sharing: Sharing) {
    let arguments = [word.as_ptr() as usize, private(libc::FUTEX_WAIT, sharing), expected as usize, 0];
    // EAGAIN (the word moved) and EINTR are ordinary here: the caller looks at the word again.
    // SAFETY: the kernel reads a word that a reference names; without a timeout.
    let _looked_at_again = unsafe { call(libc::SYS_futex, arguments) };
}

/// Wakes one sleeper.
#[inline(always)]
pub(crate) fn futex_wake_one(word: &AtomicU32, sharing: Sharing) {
    let arguments = [word.as_ptr() as usize, private(libc::FUTEX_WAKE, sharing), 1, 0];
    // The only errors are those of a bad address, which a reference is not.
    // SAFETY: the kernel uses the address of a word that a reference names.
    let _woken = unsafe { call(libc::SYS_futex, arguments) };
}

/// Sleeps for so long, signals or not, on CLOCK_MONOTONIC.
#[inline(always)]
pub fn sleep(length: Duration) {
    let mut left = libc::timespec {
        tv_sec: libc::time_t::try_from(length.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: length.subsec_nanos().into(),
    };
    loop {
        let place = &raw mut left as usize;
        // SAFETY: the kernel reads a timespec and writes what is left of it to the same place.
        let result = unsafe { call(libc::SYS_clock_nanosleep, [libc::CLOCK_MONOTONIC as usize, 0, place, place]) };
        if result != -(libc::EINTR as isize) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    #[test]
    fn a_sleeper_sleeps_as_long_as_asked_and_is_woken() {
        let begin = Instant::now();
        sleep(Duration::from_millis(3));
        assert!(begin.elapsed() >= Duration::from_millis(3));
        for sharing in [Sharing::Threads, Sharing::Processes] {
            let word = AtomicU32::new(0);
            // The word differs: it returns immediately.
            futex_wait(&word, 1, sharing);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while word.load(Ordering::SeqCst) == 0 {
                        futex_wait(&word, 0, sharing);
                    }
                });
                word.store(1, Ordering::SeqCst);
                futex_wake_one(&word, sharing);
            });
        }
    }
}
