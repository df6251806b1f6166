//! What is counted while the machine runs.

use crate::combine::Part;
use crate::sched::group::GroupStats;
use holdup_model::{Histogram, SparseHistogram};

/// How a task left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SwitchOut {
    /// It waits for something.
    Blocked,
    /// It was runnable and was switched out at the return to user mode, or yielded: `R`.
    AtBoundary,
    /// It was runnable and was switched out inside the kernel: `R+`.
    InKernel,
    /// It ended.
    Exited,
}

/// Every [`SwitchOut`], by number.
pub const SWITCH_OUTS: [SwitchOut; 4] =
    [SwitchOut::Blocked, SwitchOut::AtBoundary, SwitchOut::InKernel, SwitchOut::Exited];

/// Counters of the tasks of a program.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProgramStats {
    /// Switch-outs, by [`SWITCH_OUTS`].
    pub switch_outs: [u64; 4],
    /// Switch-outs of tasks that held a lock.
    pub switch_outs_holding: [u64; 4],
    /// Times from runnable to running, ns.
    pub waited: Histogram,
    /// Minor faults.
    pub faults: u64,
    /// Minor faults while a lock was held.
    pub faults_holding: u64,
    /// CPU time in user mode without spinning, ns.
    pub user_ns: u64,
    /// CPU time in the kernel, ns.
    pub kernel_ns: u64,
    /// CPU time spent spinning for a lock, ns.
    pub spin_ns: u64,
    /// Migrations to another CPU.
    pub migrations: u64,
}

impl ProgramStats {
    /// Adds the counters of another program.
    pub fn add(&mut self, other: &ProgramStats) {
        for way in 0..SWITCH_OUTS.len() {
            self.switch_outs[way] += other.switch_outs[way];
            self.switch_outs_holding[way] += other.switch_outs_holding[way];
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

/// Counters of a mark.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MarkStats {
    /// How often it was done in the window.
    pub count: u64,
    /// How often it was done before the window opened.
    pub before: u64,
    /// How long it took, where it was begun, ns.
    pub lengths: Histogram,
}

/// Where a holder was when it left its CPU, as the collector `critical-sections` names it.
pub const HOLDERS: [&str; 4] = ["user boundary", "in a system call", "in a page fault", "sleeping"];

/// Counters of a lock.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LockStats {
    pub acquisitions: u64,
    /// Acquisitions that had to wait.
    pub contended: u64,
    /// How long those waited, ns.
    pub waits: Histogram,
    /// How long holders were off their CPU while runnable, ns.
    pub holder_preempted: Histogram,
    /// Switch-outs of its holders, by [`HOLDERS`].
    pub holder_left: [u64; 4],
    /// Time that its holders were off their CPUs, by [`HOLDERS`], ns.
    pub holder_off_ns: [u64; 4],
    /// CPU time of its holders, ns.
    pub held_ns: u64,
    /// CPU time of its spinning waiters, ns.
    pub spin_ns: u64,
    /// CPU time of its spinning waiters while the holder was off its CPU, ns.
    pub spin_behind_ns: u64,
    /// Page faults of its holders.
    pub faults: u64,
    /// CPU time of those faults, ns.
    pub fault_ns: u64,
    /// Sleeps of its waiters.
    pub sleeps: u64,
    /// Waiters that slept as often as PostgreSQL allows before it panics.
    pub stuck: u64,
}

/// All counters since the window opened.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WindowStats {
    pub roles: Vec<ProgramStats>,
    pub marks: Vec<MarkStats>,
    pub locks: Vec<LockStats>,
    /// Operations by task: of the first mark of each workload.
    pub by_task: Vec<u64>,
    /// CPU time by task, ns.
    pub cpu_ns: Vec<u64>,
    pub groups: Vec<GroupStats>,
    /// Which counters belong to which workload, where there are several.
    pub parts: Vec<Part>,
    pub events: u64,
    /// Context switches.
    pub switches: u64,
    /// Wake-ups.
    pub wakeups: u64,
    /// Idle time of all CPUs, ns.
    pub idle_ns: u64,
    /// CPU time of switches, ticks and other interrupts, ns.
    pub overhead_ns: u64,
    /// Reschedule interrupts that one CPU sent to another.
    pub ipis: u64,
    /// True if a task asked for a slice extension.
    pub asked: bool,
    /// Slice extensions that were granted.
    pub grants: u64,
    /// Slice extensions that expired.
    pub grants_expired: u64,
    /// What is counted where tasks follow a trace.
    pub replay: Option<Box<ReplayStats>>,
}

/// Counters of tasks that follow a trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplayStats {
    /// By task: times from runnable to running, ns.
    pub waits: Vec<SparseHistogram>,
    /// True if a task has come to where the trace ended while it ran or waited for a CPU: less runs than in the trace from then on, and
    /// waits count no more.
    pub is_past_end: bool,
    /// Tasks that have not ended.
    pub left: u32,
    /// When the last one ended, ns.
    pub ended_ns: u64,
}
