//! x86-64.

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

/// A system call of four arguments. Returns what the kernel returns: a negated errno on failure.
///
/// # Safety
/// What the call does with its arguments must be sound.
#[inline(always)]
pub(crate) unsafe fn call(number: libc::c_long, arguments: [usize; 4]) -> isize {
    let [a, b, c, d] = arguments;
    let result: isize;
    // SAFETY: the caller's promise; the kernel changes no register but these.
    unsafe {
        std::arch::asm!(
            "syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            lateout("rcx") _, lateout("r11") _, options(nostack)
        );
    }
    result
}
