//! A machine: its CPUs, what things cost on it, and its kernel.

pub mod draws;
mod file;
pub mod kernel;
pub mod known;
mod topology;

pub use file::{Described, Known, MOST_CPUS, Parameter};
pub use kernel::Kernel;
pub use topology::{Distance, Topology};

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
    /// A first touch of a 2 MB page that another process has filled: only the page table entry is made.
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
    /// Putting a message into a socket, without the system call and without waking the reader.
    pub send_ns: u64,
    /// Taking a message out of a socket, without the system call.
    pub receive_ns: u64,
    /// Making a process.
    pub fork_ns: u64,
    /// What pgbench computes for each message that it gets.
    pub pg_client_ns: u64,
    /// What a backend computes for BEGIN.
    pub pg_begin_ns: u64,
    /// What a backend computes for a SELECT of one row by its key.
    pub pg_select_ns: u64,
    /// What a backend computes for an UPDATE of one row by its key.
    pub pg_update_ns: u64,
    /// What a backend computes for an INSERT of one row.
    pub pg_insert_ns: u64,
    /// What a backend computes for END, without the flush of the log.
    pub pg_end_ns: u64,
    /// What the device of the write-ahead log takes for a flush.
    pub pg_flush_ns: u64,
    /// What reading a page takes that is in the page cache and not in the buffer pool.
    pub pg_read_ns: u64,
    /// What StrategyGetBuffer does under its spinlock.
    pub pg_free_list_ns: u64,
    /// How late a sleep ends, beside the time that its task waits for a CPU (timer slack).
    pub timer_slack_ns: u64,
    /// Copying 1 KiB between a task and a socket.
    pub net_copy_ns: u64,
    /// What the layers of a network do for a segment at one end, copying apart.
    pub net_segment_ns: u64,
    /// What a switch does to find out where a segment goes.
    pub net_forward_ns: u64,
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

impl Costs {
    /// The names of all costs, as machine files have them.
    pub const NAMES: &[&str] = &[
        "switch_ns",
        "syscall_ns",
        "wake_ns",
        "ipi_ns",
        "ipi_send_ns",
        "idle_exit_ns",
        "interrupt_ns",
        "tick_ns",
        "fault_ns",
        "huge_fault_ns",
        "touch_ns",
        "forget_ns",
        "atomic_ns",
        "transfer_core_ns",
        "transfer_llc_ns",
        "transfer_node_ns",
        "transfer_far_ns",
        "spin_ns",
        "contender_ns",
        "send_ns",
        "receive_ns",
        "fork_ns",
        "pg_client_ns",
        "pg_begin_ns",
        "pg_select_ns",
        "pg_update_ns",
        "pg_insert_ns",
        "pg_end_ns",
        "pg_flush_ns",
        "pg_read_ns",
        "pg_free_list_ns",
        "timer_slack_ns",
        "net_copy_ns",
        "net_segment_ns",
        "net_forward_ns",
    ];

    /// The costs of the default machine: assumed, of the order that servers of these years have.
    pub const DEFAULT: Costs = Costs {
        switch_ns: 1_500,
        syscall_ns: 150,
        wake_ns: 800,
        ipi_ns: 900,
        ipi_send_ns: 100,
        idle_exit_ns: 2_000,
        interrupt_ns: 700,
        tick_ns: 1_500,
        fault_ns: 600,
        huge_fault_ns: 1_500,
        touch_ns: 3,
        forget_ns: 30,
        atomic_ns: 8,
        transfer_ns: [0, 20, 60, 120, 250],
        spin_ns: 40,
        contender_ns: 30,
        send_ns: 1_000,
        receive_ns: 700,
        fork_ns: 80_000,
        pg_client_ns: 6000,
        pg_begin_ns: 8000,
        pg_select_ns: 22000,
        pg_update_ns: 40000,
        pg_insert_ns: 22000,
        pg_end_ns: 14000,
        pg_flush_ns: 400000,
        pg_read_ns: 4000,
        pg_free_list_ns: 30,
        timer_slack_ns: 50_000,
        net_copy_ns: 60,
        net_segment_ns: 1_500,
        net_forward_ns: 1_000,
    };

    /// Where the cost of this name stands.
    pub fn place(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "switch_ns" => &mut self.switch_ns,
            "syscall_ns" => &mut self.syscall_ns,
            "wake_ns" => &mut self.wake_ns,
            "ipi_ns" => &mut self.ipi_ns,
            "ipi_send_ns" => &mut self.ipi_send_ns,
            "idle_exit_ns" => &mut self.idle_exit_ns,
            "interrupt_ns" => &mut self.interrupt_ns,
            "tick_ns" => &mut self.tick_ns,
            "fault_ns" => &mut self.fault_ns,
            "huge_fault_ns" => &mut self.huge_fault_ns,
            "touch_ns" => &mut self.touch_ns,
            "forget_ns" => &mut self.forget_ns,
            "atomic_ns" => &mut self.atomic_ns,
            "transfer_core_ns" => &mut self.transfer_ns[1],
            "transfer_llc_ns" => &mut self.transfer_ns[2],
            "transfer_node_ns" => &mut self.transfer_ns[3],
            "transfer_far_ns" => &mut self.transfer_ns[4],
            "spin_ns" => &mut self.spin_ns,
            "contender_ns" => &mut self.contender_ns,
            "send_ns" => &mut self.send_ns,
            "receive_ns" => &mut self.receive_ns,
            "fork_ns" => &mut self.fork_ns,
            "pg_client_ns" => &mut self.pg_client_ns,
            "pg_begin_ns" => &mut self.pg_begin_ns,
            "pg_select_ns" => &mut self.pg_select_ns,
            "pg_update_ns" => &mut self.pg_update_ns,
            "pg_insert_ns" => &mut self.pg_insert_ns,
            "pg_end_ns" => &mut self.pg_end_ns,
            "pg_flush_ns" => &mut self.pg_flush_ns,
            "pg_read_ns" => &mut self.pg_read_ns,
            "pg_free_list_ns" => &mut self.pg_free_list_ns,
            "timer_slack_ns" => &mut self.timer_slack_ns,
            "net_copy_ns" => &mut self.net_copy_ns,
            "net_segment_ns" => &mut self.net_segment_ns,
            "net_forward_ns" => &mut self.net_forward_ns,
            _ => return None,
        })
    }
}
