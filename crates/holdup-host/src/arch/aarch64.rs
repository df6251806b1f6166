//! AArch64.

/// PERF_REG_ARM64_X29, PERF_REG_ARM64_LR, PERF_REG_ARM64_SP, PERF_REG_ARM64_PC.
pub(super) const SAMPLED_REGISTERS: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;
pub(super) const HAS_LINK: bool = true;
/// At least two (Arm ARM, ID_AA64DFR0_EL1.BRPs); CPUs of servers have six.
pub(super) const BREAKPOINTS: usize = 4;
