//! AArch64.

use std::sync::atomic::AtomicU32;

/// True if the two below are what they are named after.
pub(crate) const HAS_TURNS_OF_ARM64: bool = true;

/// `yield`.
#[inline(always)]
pub(crate) fn yield_turn() {
    // SAFETY: a hint, which changes nothing.
    unsafe { std::arch::asm!("yield", options(nomem, nostack, preserves_flags)) };
}

/// Stops the core until the word is written, if it is not 0. The load claims the line, and a write of another core takes
/// the claim away, which is the event that `wfe` waits for; so does a return from an interrupt, so that no event is missed.
#[inline(always)]
pub(crate) fn wait_while_held(word: &AtomicU32) {
    // SAFETY: reads a word that is there; the rest changes no memory and no register but the one that is named.
    unsafe {
        std::arch::asm!(
            "ldaxr {seen:w}, [{word}]", "cbz {seen:w}, 2f", "wfe", "2:",
            seen = out(reg) _, word = in(reg) word.as_ptr(), options(readonly, nostack, preserves_flags)
        );
    }
}

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
