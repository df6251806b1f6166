//! Architectures on which nothing here was tried.

pub(super) const SAMPLED_REGISTERS: u64 = 0;
pub(super) const HAS_LINK: bool = false;
pub(super) const BREAKPOINTS: usize = 0;
