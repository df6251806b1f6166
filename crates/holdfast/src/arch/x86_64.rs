//! x86-64.

/// True if kernels extend time slices here (7.0, init/Kconfig: `RSEQ_SLICE_EXTENSION` needs `GENERIC_ENTRY` and `HAVE_GENERIC_TIF_BITS`).
pub(crate) const HAS_SLICE_EXTENSION: bool = true;

/// What glibc registers areas with (sysdeps/unix/sysv/linux/x86/bits/rseq.h).
pub(crate) const RSEQ_SIGNATURE: u32 = 0x5305_3053;

/// The addresses of the C library's `__rseq_offset` and `__rseq_size`, null where it has none.
#[inline(always)]
pub(crate) fn rseq_symbols() -> (*const isize, *const u32) {
    let (offset, size): (*const isize, *const u32);
    // SAFETY: reads the addresses of two symbols from the global offset table. They are weak, so that programs link with
    // libraries that do not have them, and null there.
    unsafe {
        core::arch::asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "mov {0}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {1}, qword ptr [rip + __rseq_size@GOTPCREL]",
            out(reg) offset, out(reg) size, options(pure, readonly, nostack, preserves_flags)
        );
    }
    (offset, size)
}

/// What the C library's distances of a thread are counted from.
#[inline(always)]
pub(crate) fn thread_pointer() -> *mut u8 {
    let thread: *mut u8;
    // SAFETY: the first word of the thread control block is its own address (System V ABI for x86-64, TLS).
    unsafe {
        core::arch::asm!("mov {0}, qword ptr fs:[0]", out(reg) thread, options(pure, readonly, nostack, preserves_flags));
    }
    thread
}
