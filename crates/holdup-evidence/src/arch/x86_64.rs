//! x86-64.

use super::Programs;
use crate::kernel::{At, Program};
use holdup_model::sections::Machine;

/// arch/x86/include/uapi/asm/ptrace.h
pub(super) const PROGRAMS: Option<Programs> = Some(Programs {
    machine: Machine::X86_64,
    constants: &[
        ("regs_ip", 128),
        ("regs_sp", 152),
        ("regs_bp", 32),
        // r15, r14, r13, r12, rbp, rbx.
        ("regs_saved", 0),
        // orig_ax, of which the number is the lower half.
        ("regs_syscall", 120),
        // rdi, rsi, rdx, r10.
        ("regs_argument1", 112),
        ("regs_argument2", 104),
        ("regs_argument3", 96),
        ("regs_argument4", 56),
        // The selector of code of 64 bits (arch/x86/include/asm/segment.h:__USER_CS).
        ("regs_mode", 136),
        ("mode_mask", 0xffff),
        ("mode_of_64_bits", 0x33),
        // arch/x86/entry/syscalls/syscall_64.tbl
        ("futex_number", 202),
    ],
    signature_bits: 0,
    registers: &[80, 88, 96, 40, 152, 32, 104, 112, 72, 64, 56, 48, 24, 16, 8, 0, 144],
    fault_begins: &[
        Program { name: "user_fault_begins", at: At::Tracepoint("page_fault_user") },
        Program { name: "kernel_fault_begins", at: At::Tracepoint("page_fault_kernel") },
    ],
    knows_first_touch: true,
});

pub(super) fn syscall_name(number: u32) -> Option<&'static str> {
    syscalls::Sysno::new(number as usize).map(|known| known.name())
}
