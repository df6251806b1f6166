//! AArch64.

/// A system call of four arguments. Returns what the kernel returns: a negated errno on failure.
///
/// # Safety
/// What the call does with its arguments must be sound.
#[inline(always)]
pub(crate) unsafe fn call(number: libc::c_long, arguments: [usize; 4]) -> isize {
    let [a, b, c, d] = arguments;
    let result: isize;
    // SAFETY: the caller's promise; the kernel changes no register but the first.
    unsafe {
        std::arch::asm!(
            "svc 0", in("x8") number, inlateout("x0") a => result, in("x1") b, in("x2") c, in("x3") d, options(nostack)
        );
    }
    result
}
