//! Architectures that nothing was written for.

use std::sync::atomic::AtomicU32;

/// Whether the two below are what they are named after.
pub(crate) const HAS_TURNS_OF_ARM64: bool = false;

#[inline(always)]
pub(crate) fn yield_turn() {
    std::hint::spin_loop();
}

#[inline(always)]
pub(crate) fn wait_while_held(_word: &AtomicU32) {
    std::hint::spin_loop();
}

/// A system call of four arguments, through the C library. Returns what the kernel returns: a negated errno on failure.
///
/// # Safety
/// What the call does with its arguments must be sound.
pub(crate) unsafe fn call(number: libc::c_long, arguments: [usize; 4]) -> isize {
    let [a, b, c, d] = arguments;
    // SAFETY: the caller's promise.
    let result = unsafe { libc::syscall(number, a, b, c, d) };
    if result < 0 {
        return -std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL) as isize;
    }
    result as isize
}
