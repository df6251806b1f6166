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

use crate::kernel::Program;
use holdup_model::sections::Machine;

/// What the BPF programs have to know of an architecture.
pub(crate) struct Programs {
    /// Whose section maps they can use.
    pub(crate) machine: Machine,
    /// Constants of state.h: places in struct pt_regs and what is found there.
    pub(crate) constants: &'static [(&'static str, u32)],
    /// state.h:signature_bits.
    pub(crate) signature_bits: u64,
    /// Where registers lie in struct pt_regs, by their number in section maps.
    pub(crate) registers: &'static [u16],
    /// What sees the begin of a page fault.
    pub(crate) fault_begins: &'static [Program],
    /// True if that shows if a page table entry was there.
    pub(crate) knows_first_touch: bool,
    /// Functions that the kernel is entered by, and what for (state.h:kernel_entry).
    pub(crate) entries: &'static [(&'static str, usize)],
}

/// `None` where neither the BPF programs nor call stacks were tried.
pub(crate) const PROGRAMS: Option<Programs> = here::PROGRAMS;

/// What sees the begin of a page fault here.
pub(crate) fn fault_begins() -> &'static [Program] {
    PROGRAMS.map_or(&[], |known| known.fault_begins)
}

/// The name of a system call, where the numbers are known.
pub(crate) fn syscall_name(number: u32) -> Option<&'static str> {
    here::syscall_name(number)
}
