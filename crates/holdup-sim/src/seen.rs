//! What is counted while the machine runs.

use crate::sched::group::GroupSeen;
use crate::together::Part;
use holdup_model::Histogram;

/// How a task left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Left {
    /// It waits for something.
    Waits,
    /// It could go on and was switched out at the return to user mode, or gave way: `R`.
    Boundary,
    /// It could go on and was switched out inside the kernel: `R+`.
    Inside,
    /// It ended.
    Ends,
}

/// The ways of leaving a CPU, by number.
pub const WAYS: [Left; 4] = [Left::Waits, Left::Boundary, Left::Inside, Left::Ends];

/// What was seen of the tasks of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct RoleSeen {
    /// Switch-outs, by [`WAYS`].
    pub left: [u64; 4],
    /// The same of tasks that held a lock.
    pub left_holding: [u64; 4],
    /// Times from being able to run to running, ns.
    pub waited: Histogram,
    /// Minor faults.
    pub faults: u64,
    /// The same while a lock was held.
    pub faults_holding: u64,
    /// CPU time in user mode but for spinning, in the kernel, spinning, ns.
    pub user_ns: u64,
    /// CPU time in the kernel, ns.
    pub kernel_ns: u64,
    /// CPU time spent waiting for a lock, ns.
    pub spin_ns: u64,
    /// Migrations to another CPU.
    pub migrations: u64,
}

impl RoleSeen {
    pub(crate) fn new() -> Self {
        RoleSeen {
            left: [0; 4],
            left_holding: [0; 4],
            waited: Histogram::new(),
            faults: 0,
            faults_holding: 0,
            user_ns: 0,
            kernel_ns: 0,
            spin_ns: 0,
            migrations: 0,
        }
    }

    /// Adds what was seen of the tasks of another program.
    pub fn add(&mut self, other: &RoleSeen) {
        for way in 0..WAYS.len() {
            self.left[way] += other.left[way];
            self.left_holding[way] += other.left_holding[way];
        }
        self.waited.add(&other.waited);
        self.faults += other.faults;
        self.faults_holding += other.faults_holding;
        self.user_ns += other.user_ns;
        self.kernel_ns += other.kernel_ns;
        self.spin_ns += other.spin_ns;
        self.migrations += other.migrations;
    }
}

/// What was seen of a mark: how often it was done, and how long it took.
#[derive(Debug, Clone, PartialEq)]
pub struct MarkSeen {
    /// How often.
    pub count: u64,
    /// How often before the window opened.
    pub before: u64,
    /// How long, where it was begun.
    pub lengths: Histogram,
}

impl MarkSeen {
    pub(crate) fn new() -> Self {
        MarkSeen { count: 0, before: 0, lengths: Histogram::new() }
    }
}

/// Where a holder was when it left its CPU, as the collector `critical-sections` names it.
pub const HOLDERS: [&str; 4] = ["user boundary", "in a system call", "in a page fault", "sleeping"];

/// What was seen of a lock.
#[derive(Debug, Clone, PartialEq)]
pub struct LockSeen {
    /// Acquisitions.
    pub acquisitions: u64,
    /// Those that had to wait.
    pub contended: u64,
    /// Times from wanting to having, of those that had to wait, ns.
    pub waits: Histogram,
    /// Times that a holder was off its CPU, able to run, ns.
    pub holder_preempted: Histogram,
    /// Switch-outs of its holders, by [`HOLDERS`].
    pub holder_left: [u64; 4],
    /// Time that its holders were off their CPUs, by [`HOLDERS`], ns.
    pub holder_off_ns: [u64; 4],
    /// CPU time of its holders, ns.
    pub held_ns: u64,
    /// CPU time of those that waited for it on a CPU, ns.
    pub spin_ns: u64,
    /// The same while its holder was off its CPU, ns.
    pub spin_behind_ns: u64,
    /// Page faults of its holders.
    pub faults: u64,
    /// How long these took on a CPU, ns.
    pub fault_ns: u64,
    /// Sleeps on the way to it.
    pub sleeps: u64,
    /// Waiters that slept so often that PostgreSQL would have panicked.
    pub stuck: u64,
}

/// All that was seen since the window opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// By program.
    pub roles: Vec<RoleSeen>,
    /// By mark.
    pub marks: Vec<MarkSeen>,
    /// By lock.
    pub locks: Vec<LockSeen>,
    /// Operations that were done, by task; of the first mark of each workload.
    pub by_task: Vec<u64>,
    /// CPU time by task, ns.
    pub cpu_ns: Vec<u64>,
    /// By group.
    pub groups: Vec<GroupSeen>,
    /// What belongs to which workload, where there are several.
    pub parts: Vec<Part>,
    /// Events that were carried out.
    pub events: u64,
    /// Of these: context switches, wake-ups and ticks.
    pub switches: u64,
    /// Wake-ups.
    pub wakeups: u64,
    /// Time that CPUs had nothing to do, ns.
    pub idle_ns: u64,
    /// CPU time that switches, ticks and other interrupts took, ns.
    pub overhead_ns: u64,
    /// Interrupts that one CPU sent to another to make it reschedule.
    pub ipis: u64,
    /// Whether a task asked for a slice extension.
    pub asked: bool,
    /// Slice extensions that were granted, and of these those that ran out.
    pub grants: u64,
    /// Grants that ran out.
    pub grants_expired: u64,
}
