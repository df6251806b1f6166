//! Architectures without the slice extension: arm64 has no `GENERIC_ENTRY`, which it needs (7.2), others were not tried. Miri is one, as it has
//! no kernel.

/// True if kernels extend time slices here.
pub(crate) const HAS_SLICE_EXTENSION: bool = false;

/// None is registered.
pub(crate) const RSEQ_SIGNATURE: u32 = 0;

/// Where the C library has its areas is not asked.
pub(crate) fn rseq_symbols() -> (*const isize, *const u32) {
    (core::ptr::null(), core::ptr::null())
}

/// Never asked for without the symbols.
pub(crate) fn thread_pointer() -> *mut u8 {
    core::ptr::null_mut()
}
