//! What differs between architectures: a file for each that something was written for.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as here;

#[cfg(not(target_arch = "x86_64"))]
mod other;
#[cfg(not(target_arch = "x86_64"))]
use other as here;

/// Whether the BPF programs were written for it.
pub(crate) const HAS_PROGRAMS: bool = here::HAS_PROGRAMS;

/// Whether call stacks are unwound on it.
pub(crate) const UNWINDS: bool = here::UNWINDS;

/// The name of a system call, where the numbers are known.
pub(crate) fn syscall_name(number: u32) -> Option<&'static str> {
    here::syscall_name(number)
}
