//! x86-64.

use super::Programs;
use crate::kernel::layout::{ENTRY_CALL, ENTRY_FAULT, ENTRY_INTERRUPT, ENTRY_RESCHEDULE, ENTRY_SYSCALL, ENTRY_TIMER};
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
    // In assembly: those in C may jump to the way back, and are then not on the stack.
    entries: &[
        ("asm_exc_page_fault", ENTRY_FAULT),
        ("do_syscall_64", ENTRY_SYSCALL),
        ("__do_fast_syscall_32", ENTRY_SYSCALL),
        ("do_int80_emulation", ENTRY_SYSCALL),
        ("asm_sysvec_apic_timer_interrupt", ENTRY_TIMER),
        ("asm_sysvec_hyperv_stimer0", ENTRY_TIMER),
        ("asm_sysvec_reschedule_ipi", ENTRY_RESCHEDULE),
        ("asm_sysvec_call_function_single", ENTRY_CALL),
        ("asm_sysvec_call_function", ENTRY_CALL),
        ("asm_common_interrupt", ENTRY_INTERRUPT),
        ("asm_sysvec_irq_work", ENTRY_INTERRUPT),
        ("asm_sysvec_kvm_asyncpf_interrupt", ENTRY_INTERRUPT),
        ("asm_sysvec_hyperv_callback", ENTRY_INTERRUPT),
        ("asm_sysvec_xen_hvm_callback", ENTRY_INTERRUPT),
    ],
});

pub(super) fn syscall_name(number: u32) -> Option<&'static str> {
    syscalls::Sysno::new(number as usize).map(|known| known.name())
}
