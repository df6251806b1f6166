//! What differs between architectures: a file for each that something was written for.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
use aarch64 as here;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as here;

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
mod other;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
use other as here;

/// The registers of a sample, a bit for each (asm/perf_regs.h). Their order is that of the bits: frame pointer, that of the return
/// address, stack pointer, instruction pointer.
pub(crate) const SAMPLED_REGISTERS: u64 = here::SAMPLED_REGISTERS;

/// True if a call leaves the return address in a register, which then is one of those of a sample.
pub const HAS_LINK: bool = here::HAS_LINK;

/// Instruction breakpoints that a thread can have.
pub(crate) const BREAKPOINTS: usize = here::BREAKPOINTS;
