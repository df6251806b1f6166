//! The turns of arm64, on an architecture that has none: they are that of `std`.

use std::sync::atomic::AtomicU32;

/// True if the two below are what they are named after.
pub(crate) const HAS_TURNS_OF_ARM64: bool = false;

#[inline(always)]
pub(crate) fn yield_turn() {
    std::hint::spin_loop();
}

#[inline(always)]
pub(crate) fn wait_while_held(_word: &AtomicU32) {
    std::hint::spin_loop();
}
