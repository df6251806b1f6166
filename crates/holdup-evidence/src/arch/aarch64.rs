//! AArch64.

use super::Programs;
use crate::kernel::layout::{ENTRY_FAULT, ENTRY_INTERRUPT, ENTRY_SYSCALL};
use crate::kernel::{At, Program};
use aya::programs::perf_event::SoftwareEvent;
use holdup_model::sections::Machine;

/// arch/arm64/include/asm/ptrace.h: x0 to x30, sp, pc, pstate, orig_x0, syscallno.
pub(super) const PROGRAMS: Option<Programs> = Some(Programs {
    machine: Machine::Aarch64,
    constants: &[
        ("regs_ip", 256),
        ("regs_sp", 248),
        ("regs_bp", 8 * 29),
        ("regs_lr", 8 * 30),
        // x19 to x24.
        ("regs_saved", 8 * 19),
        ("regs_syscall", 280),
        // orig_x0: x0 has the result in the end.
        ("regs_argument1", 272),
        ("regs_argument2", 8),
        ("regs_argument3", 16),
        ("regs_argument4", 24),
        // PSTATE: PSR_MODE32_BIT, and the exception level 0.
        ("regs_mode", 264),
        ("mode_mask", 0x1f),
        ("mode_of_64_bits", 0),
        // include/uapi/asm-generic/unistd.h
        ("futex_number", 98),
    ],
    // A return address that is kept on the stack may be signed (pointer authentication) above the 48 bits of addresses.
    signature_bits: !((1 << 48) - 1),
    registers: &REGISTERS,
    // No tracepoint is there; do_page_fault (arch/arm64/mm/fault.c) counts the fault before it handles it.
    fault_begins: &[Program { name: "counted_fault_begins", at: At::Event(SoftwareEvent::PageFaults, 1) }],
    knows_first_touch: false,
    // Kinds of interrupts meet in one function.
    entries: &[
        ("el0_da", ENTRY_FAULT),
        ("el0_ia", ENTRY_FAULT),
        ("el1_abort", ENTRY_FAULT),
        ("el0_svc", ENTRY_SYSCALL),
        ("el0_svc_compat", ENTRY_SYSCALL),
        ("el0_interrupt", ENTRY_INTERRUPT),
        ("el1_interrupt", ENTRY_INTERRUPT),
    ],
});

/// x0 to x30, sp, PSTATE.
const REGISTERS: [u16; 33] = {
    let mut places = [264; 33];
    let mut number = 0;
    while number < 32 {
        places[number] = 8 * number as u16;
        number += 1;
    }
    places
};

pub(super) fn syscall_name(number: u32) -> Option<&'static str> {
    syscalls::Sysno::new(number as usize).map(|known| known.name())
}
