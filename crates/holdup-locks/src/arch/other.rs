//! Architectures that nothing was written for.

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
