//! Running a BPF program when a thread reaches an instruction: hardware breakpoints of perf_event_open(2).
//!
//! The program's code stays as it is; the CPU compares the address, with a debug register that the kernel loads when the
//! thread is switched in.
//!
//! Sources: perf_event_open(2), PERF_TYPE_BREAKPOINT, PERF_EVENT_IOC_REFRESH; include/uapi/linux/hw_breakpoint.h;
//! `kernel/events/hw_breakpoint.c:register_perf_hw_breakpoint`, `kernel/events/core.c:perf_event_set_bpf_prog`,
//! `arch/x86/kernel/hw_breakpoint.c:hw_breakpoint_handler`, `arch/arm64/kernel/hw_breakpoint.c:do_breakpoint` (v6.18).

use crate::arch;
use crate::perf::{ATTRIBUTES_SIZE, Attributes, DISABLED, open_for, request, run_program};
use crate::{Host, HostError};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::io;

/// Instruction breakpoints that a thread can have.
pub const MOST_OF_A_THREAD: usize = arch::BREAKPOINTS;

const PERF_TYPE_BREAKPOINT: u32 = 5;
/// An instruction is about to be executed.
const HW_BREAKPOINT_X: u32 = 4;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
const IOC_REFRESH: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(b'$', 2);

/// A breakpoint of one thread. Dropping it removes it.
#[derive(Debug)]
pub struct Breakpoint {
    _event: OwnedFd,
}

impl Host {
    /// Has a BPF program (of the type perf event) run when a thread is about to execute the instruction at an address of its
    /// own memory, in user mode: once, if the program returns another number than 0.
    ///
    /// # Errors
    /// When the thread is gone, all debug registers are taken, this process may not do that, the program is of another
    /// type, or the host is a captured tree.
    pub fn breakpoint(&self, tid: u32, address: u64, program: BorrowedFd<'_>) -> Result<Breakpoint, HostError> {
        let what = format!("a breakpoint at {address:#x} in thread {tid}");
        let fault = |error: &io::Error| HostError::new("set", &what, error);
        if !self.is_live() {
            return Err(fault(&io::Error::new(io::ErrorKind::Unsupported, "only the running system can be watched")));
        }
        let attributes = Attributes {
            kind: PERF_TYPE_BREAKPOINT,
            size: ATTRIBUTES_SIZE,
            sample_period: 1,
            flags: DISABLED | EXCLUDE_KERNEL | EXCLUDE_HV,
            bp_type: HW_BREAKPOINT_X,
            config1: address,
            // The length of an instruction breakpoint is that of a long; arm64 takes it for 4.
            config2: size_of::<libc::c_long>() as u64,
            ..Attributes::default()
        };
        let tid = libc::pid_t::try_from(tid).map_err(|e| fault(&io::Error::other(e)))?;
        let event = open_for(&attributes, tid, -1).map_err(|e| fault(&e))?;
        let once = 1;
        run_program(&event, program).and_then(|()| request(&event, IOC_REFRESH, once)).map_err(|e| fault(&e))?;
        Ok(Breakpoint { _event: event })
    }
}

#[cfg(test)]
mod tests {
    use crate::fake::MemoryFs;
    use rustix::fd::AsFd;

    #[test]
    fn a_captured_tree_has_no_threads() {
        let file = std::fs::File::open("/dev/null").expect("it is everywhere");
        let error = MemoryFs::of(&[]).host().breakpoint(1, 0x10, file.as_fd()).expect_err("no system");
        let expected = "cannot set a breakpoint at 0x10 in thread 1: only the running system can be watched";
        assert_eq!(error.to_string(), expected);
    }
}
