//! x86-64.

/// PERF_REG_X86_BP, PERF_REG_X86_SP, PERF_REG_X86_IP.
pub(super) const SAMPLED_REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;
pub(super) const HAS_LINK: bool = false;
pub(super) const BREAKPOINTS: usize = 4;
