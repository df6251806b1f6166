//! A machine: its CPUs, what things cost on it, and its kernel.

mod topology;

pub use topology::{Distance, Topology};

use crate::preempt::Model;
use crate::sched::eevdf::Features;

/// What things cost, ns. Each value's source stands in the machine file that it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// From the last instruction of one task to the first of the next, kernel work included.
    pub switch_ns: u64,
    /// Entering the kernel by a system call and returning, without what the call does.
    pub syscall_ns: u64,
    /// Waking a task up, for the waker.
    pub wake_ns: u64,
    /// From sending an interrupt to another CPU to its first instruction there.
    pub ipi_ns: u64,
    /// What sending it takes from the sender: little on a real machine, an exit to the hypervisor in a guest.
    pub ipi_send_ns: u64,
    /// From an interrupt on an idle CPU to the first instruction of the task that it wakes.
    pub idle_exit_ns: u64,
    /// What an interrupt takes from the task that it interrupts.
    pub interrupt_ns: u64,
    /// What the tick takes from it.
    pub tick_ns: u64,
    /// A first touch of a 4 KB page that is in the page cache.
    pub fault_ns: u64,
    /// A first touch of a 2 MB page that is reserved.
    pub huge_fault_ns: u64,
    /// A write to a page that is mapped.
    pub touch_ns: u64,
    /// Dropping a page table entry.
    pub forget_ns: u64,
    /// An atomic operation on a line that the CPU owns.
    pub atomic_ns: u64,
    /// Moving a line to a CPU, by [`Distance`].
    pub transfer_ns: [u64; 5],
    /// One turn of a spin loop with a pause.
    pub spin_ns: u64,
    /// What each further spinner adds to a write to the line that they spin on.
    pub contender_ns: u64,
    /// How late a sleep ends, beside the time that its task waits for a CPU (timer slack).
    pub timer_slack_ns: u64,
}

/// The kernel.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// The preemption model.
    pub preempt: &'static Model,
    /// Ticks per second.
    pub hz: u32,
    /// What its fair class does.
    pub fair: Features,
    /// A task that ran so recently is not pulled to another CPU.
    pub migration_cost_ns: u64,
    /// How long a slice extension lasts; 0: the kernel grants none.
    pub slice_extension_ns: u64,
}

/// A machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its CPUs.
    pub topology: Topology,
    /// What things cost.
    pub costs: Costs,
    /// Its kernel.
    pub kernel: Kernel,
}

impl Machine {
    /// Time between two ticks, ns.
    pub fn tick_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.kernel.hz)
    }
}
