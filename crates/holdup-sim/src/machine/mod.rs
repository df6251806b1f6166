//! A machine: its CPUs, what things cost on it, and its kernel.

pub mod catalogue;
pub mod draws;
mod file;
pub mod kernel;
mod omissions;
mod topology;

pub use file::{Described, MOST_CPUS, Parameter, Provenance};
pub use kernel::{Arch, Kernel};
pub use omissions::{ModelOmission, OMISSIONS};
pub use topology::{Distance, Topology};

/// Declares the costs: what each is, its name in machine files, and its value in the default machine. Those of the second
/// part are elements of `transfer_ns`.
macro_rules! costs {
    ({ $($(#[$doc:meta])* $name:ident = $ns:literal,)* } { $($line:ident = $line_ns:literal at $at:literal,)* }
     { $($(#[$doc2:meta])* $name2:ident = $ns2:literal,)* }) => {
        /// What things cost, ns. The source of each value is in the machine file that it comes from.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Costs {
            $($(#[$doc])* pub $name: u64,)*
            /// Moving a cache line to a CPU, by [`Distance`].
            pub transfer_ns: [u64; 5],
            $($(#[$doc2])* pub $name2: u64,)*
        }

        impl Costs {
            /// The names of all costs, as machine files have them.
            pub const NAMES: &[&str] =
                &[$(stringify!($name),)* $(stringify!($line),)* $(stringify!($name2),)*];

            /// The costs of the default machine: assumed, of the order that servers of these years have.
            pub const DEFAULT: Costs =
                Costs { $($name: $ns,)* transfer_ns: [0, $($line_ns,)*], $($name2: $ns2,)* };

            /// The cost of this name.
            pub fn place(&mut self, name: &str) -> Option<&mut u64> {
                $(if name == stringify!($name) { return Some(&mut self.$name); })*
                $(if name == stringify!($line) { return Some(&mut self.transfer_ns[$at]); })*
                $(if name == stringify!($name2) { return Some(&mut self.$name2); })*
                None
            }
        }
    };
}

costs! {
    {
        /// From the last instruction of one task to the first of the next, kernel work included.
        switch_ns = 1_500,
        /// Entering the kernel by a system call and returning, without what the call does.
        syscall_ns = 150,
        /// Waking a task up, for the waker.
        wake_ns = 800,
        /// From sending an interrupt to another CPU to its first instruction there.
        ipi_ns = 900,
        /// What sending it takes from the sender: little on a real machine, an exit to the hypervisor in a guest.
        ipi_send_ns = 100,
        /// From an interrupt on an idle CPU to the first instruction of the task that it wakes.
        idle_exit_ns = 2_000,
        /// What an interrupt takes from the task that it interrupts.
        interrupt_ns = 700,
        /// What the tick takes from it.
        tick_ns = 1_500,
        /// A first touch of a 4 KB page that is in the page cache.
        fault_ns = 600,
        /// A first touch of a 2 MB page that another process has filled: only the page table entry is made.
        huge_fault_ns = 1_500,
        /// A write to a page that is mapped.
        touch_ns = 3,
        /// Dropping a page table entry.
        forget_ns = 30,
        /// An atomic operation on a line that the CPU owns.
        atomic_ns = 8,
    }
    {
        transfer_core_ns = 20 at 1,
        transfer_llc_ns = 60 at 2,
        transfer_node_ns = 120 at 3,
        transfer_far_ns = 250 at 4,
    }
    {
        /// One turn of a spin loop with a pause.
        spin_ns = 40,
        /// What each further spinner adds to a write to the line that they spin on.
        contender_ns = 30,
        /// Putting a message into a socket, without the system call and without waking the reader.
        send_ns = 1_000,
        /// Taking a message out of a socket, without the system call.
        receive_ns = 700,
        /// Making a process.
        fork_ns = 80_000,
        /// What pgbench computes for each message that it gets.
        pg_client_ns = 6000,
        /// What a backend computes for BEGIN.
        pg_begin_ns = 8000,
        /// What a backend computes for a SELECT of one row by its key.
        pg_select_ns = 22000,
        /// What a backend computes for an UPDATE of one row by its key.
        pg_update_ns = 40000,
        /// What a backend computes for an INSERT of one row.
        pg_insert_ns = 22000,
        /// What a backend computes for END, without the flush of the log.
        pg_end_ns = 14000,
        /// What the device of the write-ahead log takes for a flush.
        pg_flush_ns = 400000,
        /// What reading a page takes that is in the page cache and not in the buffer pool.
        pg_read_ns = 4000,
        /// What StrategyGetBuffer does under its spinlock.
        pg_free_list_ns = 30,
        /// How late a sleep ends, beside the time that its task waits for a CPU (timer slack).
        timer_slack_ns = 50_000,
        /// Copying 1 KiB between a task and a socket.
        net_copy_ns = 60,
        /// What the layers of a network do for a segment at one end, copying apart.
        net_segment_ns = 1_500,
        /// What a switch does to find out where a segment goes.
        net_forward_ns = 1_000,
    }
}

#[derive(Debug, Clone)]
pub struct Machine {
    /// Its CPUs.
    pub topology: Topology,
    /// What things cost.
    pub costs: Costs,
    pub kernel: Kernel,
}

impl Machine {
    /// Time between two ticks, ns.
    pub fn tick_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.kernel.hz)
    }
}
