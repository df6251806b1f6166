//! What `holdup check` finds on a host: every fact with its source, or the reason why it is not known.
//!
//! The host layer fills it, the cases judge it, reports print it. Nothing here reads anything.

use crate::{KernelVersion, PreemptModel};
use serde::Serialize;

/// Something that was looked for: what it is and where that stands, or why it is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reading<T> {
    /// What it is; `None` when it is not known.
    pub value: Option<T>,
    /// Where it was read or would stand: a path, a system call, a query.
    pub source: String,
    /// Why it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_unknown: Option<String>,
    /// What would make it known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl<T> Reading<T> {
    /// Something that was found.
    pub fn found(value: T, source: impl Into<String>) -> Self {
        Reading { value: Some(value), source: source.into(), why_unknown: None, remedy: None }
    }

    /// Something that is not known.
    pub fn unknown(source: impl Into<String>, why: impl Into<String>) -> Self {
        Reading { value: None, source: source.into(), why_unknown: Some(why.into()), remedy: None }
    }

    /// The same, with what would make it known.
    #[must_use]
    pub fn but(mut self, remedy: impl Into<String>) -> Self {
        if self.value.is_none() {
            self.remedy = Some(remedy.into());
        }
        self
    }

    /// The value.
    pub fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// The same thing seen through a function.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Reading<U> {
        Reading { value: self.value.map(f), source: self.source, why_unknown: self.why_unknown, remedy: self.remedy }
    }

    /// The same thing seen through a function that may find it to be nonsense, and then says why.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Result<U, String>) -> Reading<U> {
        match self.value.map(f) {
            None => Reading { value: None, source: self.source, why_unknown: self.why_unknown, remedy: self.remedy },
            Some(Ok(value)) => Reading::found(value, self.source),
            Some(Err(why)) => Reading::unknown(self.source, why),
        }
    }
}

impl<T: Clone> Reading<T> {
    /// The value with its own type.
    pub fn value(&self) -> Option<T> {
        self.value.clone()
    }
}

/// All that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Survey {
    /// The kernel.
    pub kernel: Kernel,
    /// The preemption model in force.
    pub preempt: Preemption,
    /// The settings of the scheduler, wherever this kernel keeps them.
    pub settings: Vec<Setting>,
    /// The time slice extension of rseq.
    pub slice_extension: SliceExtension,
    /// Processors and what is taken from them.
    pub machine: MachineSurvey,
    /// Memory.
    pub memory: MemorySurvey,
    /// Every PostgreSQL server that was found, or why none could be looked for.
    pub servers: Reading<Vec<Server>>,
    /// What the behavioural probe measured, where it was asked for.
    pub probe: Option<Probed>,
}

/// The kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kernel {
    /// As `uname -r` prints it.
    pub release: Reading<String>,
    /// The numbers at its head.
    pub version: Reading<KernelVersion>,
    /// True if its vendor is known to put newer parts into older versions, so that a version says less (`.el9`).
    pub has_backports: bool,
    /// As `uname -m` prints it: `x86_64`, `aarch64`.
    pub architecture: Reading<String>,
    /// The command line.
    pub command_line: Reading<String>,
    /// Whether and how far it is locked down: `none`, `integrity`, `confidentiality`.
    pub lockdown: Reading<String>,
    /// Ticks in a second.
    pub hz: Reading<u32>,
    /// The distribution.
    pub distribution: Reading<String>,
}

/// What one source says of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PreemptSource {
    /// The source.
    pub source: String,
    /// The models that agree with what it says; empty when it names none.
    pub says: Vec<PreemptModel>,
    /// Its words, or why it names none.
    pub note: String,
}

/// The active preemption model, with all its sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preemption {
    /// The model that the best source names.
    pub model: Reading<PreemptModel>,
    /// The models that this kernel can be switched to; one where it is fixed when built.
    pub choices: Reading<Vec<PreemptModel>>,
    /// What `preempt=` on the command line asks for.
    pub asked: Option<String>,
    /// Why what was asked for did not come about.
    pub refused: Option<String>,
    /// All sources, the best first.
    pub sources: Vec<PreemptSource>,
    /// Where sources disagree: which, and which of them counts.
    pub disagreement: Option<String>,
}

/// One setting of the scheduler.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// The name of its knob: `migration-cost`, `base-slice`.
    pub name: String,
    /// The unit of the numbers below, where they are of one.
    pub unit: Option<String>,
    /// What is in force.
    pub value: Reading<String>,
    /// The default of this version on this machine; `None` when it is not known or there is none.
    pub default: Option<String>,
    /// What is said of such a value elsewhere, with the evidence for and against.
    pub folklore: Option<String>,
}

impl Setting {
    /// True if the value is the default; `None` when either is not known.
    pub fn is_default(&self) -> Option<bool> {
        Some(self.value.get()? == self.default.as_ref()?)
    }
}

/// Whether the time slice extension of rseq (7.0 and later) can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SliceExtension {
    /// Whether a program can use it here through the C library's registration.
    pub usable: Reading<bool>,
    /// What was found on the way, one sentence each.
    pub reasons: Vec<String>,
    /// What the kernel allows, in ns.
    pub length_ns: Reading<u64>,
    /// The length of rseq that the kernel offers (AT_RSEQ_FEATURE_SIZE), in bytes.
    pub feature_size_bytes: Reading<u64>,
    /// The version of the C library.
    pub libc: Reading<String>,
}

/// Processors and what is taken from them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachineSurvey {
    /// CPUs that are online.
    pub cpus_online: Reading<u32>,
    /// NUMA nodes.
    pub numa_nodes: Reading<u32>,
    /// The share of CPU time since boot in which the hypervisor ran something else, from 0 to 1.
    pub steal_share: Reading<f64>,
    /// Whether it is a virtual machine, and which where it is known.
    pub hypervisor: Reading<String>,
    /// The governor of the CPU frequency.
    pub governor: Reading<String>,
    /// The tightest CPU limit on the way from the processes looked at to the root group, in CPUs; `None` inside: no limit.
    pub cpu_limit_cpus: Reading<Option<f64>>,
    /// Periods of that limit in which the group was throttled, since it was made.
    pub throttled_periods: Reading<u64>,
    /// What has a virtual switch or guests run in this kernel: modules and threads that were seen.
    pub virtual_switch: Reading<Vec<String>>,
    /// The share of time in which some task waited for a CPU, over the last 5 minutes, from 0 to 1.
    pub cpu_pressure_share: Reading<f64>,
}

/// Memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemorySurvey {
    /// Memory of the machine, in bytes.
    pub total_bytes: Reading<u64>,
    /// Memory that programs can have without swapping, in bytes.
    pub available_bytes: Reading<u64>,
    /// Page tables of all processes, in bytes.
    pub page_tables_bytes: Reading<u64>,
    /// Huge pages of the default size in the pool.
    pub huge_pages_total: Reading<u64>,
    /// Memory in huge pages of every size (Hugetlb), in bytes.
    pub huge_pages_all_bytes: Reading<u64>,
    /// Those that are neither in use nor reserved.
    pub huge_pages_free: Reading<u64>,
    /// The default size of a huge page, in bytes.
    pub huge_page_bytes: Reading<u64>,
    /// `always`, `madvise`, `never`.
    pub transparent_huge_pages: Reading<String>,
    /// The share of time in which some task waited for memory, over the last 5 minutes, from 0 to 1.
    pub memory_pressure_share: Reading<f64>,
}

/// `huge_pages` of PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HugePagesAsked {
    /// Only with them, or not at all.
    On,
    /// With them if there are enough, else without, silently.
    Try,
    /// Without.
    Off,
}

/// How full the buffer pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Pool {
    /// Buffers that have never held a page, or lost theirs: those on the freelist.
    pub unused_buffers: u64,
    /// All buffers.
    pub buffers: u64,
}

impl Pool {
    /// True if new pages still come from the freelist, under its spinlock.
    pub fn is_cold(self) -> bool {
        self.unused_buffers > 0
    }
}

/// A PostgreSQL server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Server {
    /// What identifies it: `postmaster 812`, `/var/lib/postgresql/17/main`, `host=… port=…` (never a password).
    pub name: String,
    /// The postmaster.
    pub pid: Reading<u32>,
    /// Its data directory.
    pub data_directory: Reading<String>,
    /// Major version: 15, 17.
    pub major_version: Reading<u32>,
    /// The version in full, where it is known: `17.11`.
    pub version: Reading<String>,
    /// `shared_buffers`, in bytes.
    pub shared_buffers_bytes: Reading<u64>,
    /// `huge_pages` as set.
    pub huge_pages_asked: Reading<HugePagesAsked>,
    /// Whether the shared memory lies on huge pages.
    pub huge_pages_in_effect: Reading<bool>,
    /// `max_connections`.
    pub max_connections: Reading<u32>,
    /// Client connections now.
    pub clients: Reading<u32>,
    /// Client connections that run something now.
    pub active_clients: Reading<u32>,
    /// Page tables of its processes together (VmPTE), in bytes.
    pub page_tables_bytes: Reading<u64>,
    /// The largest page table of one process, in bytes.
    pub page_tables_largest_bytes: Reading<u64>,
    /// How full the buffer pool is.
    pub pool: Reading<Pool>,
    /// Client connections that were seen waiting for a spinlock, of how many looks at one.
    pub spin_waits: Reading<SpinWaits>,
    /// Whether it is scheduled in the root task group, the only one in which autogroup acts.
    pub is_in_root_task_group: Reading<bool>,
    /// The tightest CPU limit on the way from its control group to the root, in CPUs; `None` inside: no limit.
    pub cpu_limit_cpus: Reading<Option<f64>>,
    /// Settings whose file has another value than the one in force, or that stand twice: one sentence each.
    pub notes: Vec<String>,
}

/// Waits for spinlocks, sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SpinWaits {
    /// Looks at which a client waited so.
    pub waiting: u64,
    /// Looks at a client that ran something.
    pub looks: u64,
}

/// What the behavioural probe found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Probed {
    /// The models that behave as was measured.
    pub models: Reading<Vec<PreemptModel>>,
    /// How it was measured, with the numbers, one sentence each.
    pub measured: Vec<String>,
    /// How long it took, in ns.
    pub duration_ns: u64,
}

/// Whether a case hits this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exposure {
    /// All that it needs was found.
    Exposed,
    /// Something that it needs is not there.
    NotExposed,
    /// The deciding fact is not known.
    Undecided,
}

/// What can be done about a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// What to do, as a command where it is one.
    pub action: String,
    /// What is known of its effect: the experiment, its conditions.
    pub evidence: String,
    /// How to undo it.
    pub undo: String,
}

/// How much a case counts for the verdict on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// It costs throughput without anyone's doing: where it cannot be excluded, the host is undecided.
    High,
    /// It takes a setting that somebody has changed on purpose: it counts where it is found.
    Low,
    /// It costs nothing by itself, and matters to those who compare kernels or follow advice.
    None,
}

/// What a case came to on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseFinding {
    /// The id of the case.
    pub case: String,
    /// What it is about, in a line.
    pub summary: String,
    /// Whether it hits.
    pub exposure: Exposure,
    /// How much it counts for the verdict.
    pub weight: Weight,
    /// The server that it is about.
    pub server: Option<String>,
    /// Why, one sentence each, the deciding one first.
    pub reasons: Vec<String>,
    /// What would change the verdict, or decide it.
    pub would_change: Vec<String>,
    /// What to do; empty unless exposed.
    pub advice: Vec<Advice>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_releases_of_all_vendors() {
        let check = |release: &str, expect: Option<(u32, u32)>| {
            let found = KernelVersion::of_release(release).map(|v| (v.major, v.minor));
            assert_eq!(found, expect, "{release}");
        };
        check("6.18.15+deb13-amd64", Some((6, 18)));
        check("5.14.0-503.el9.x86_64", Some((5, 14)));
        check("6.1.141-155.222.amzn2023.aarch64", Some((6, 1)));
        check("7.0-rc1", Some((7, 0)));
        check("7.0+", Some((7, 0)));
        check("99.1.0", Some((99, 1)));
        for wrong in ["", "6", "six.one", "v6.1", ".6.1", "-6.1", "99999999999.1", "6.x"] {
            check(wrong, None);
        }
        assert!(KernelVersion::new(7, 3).is_read() && !KernelVersion::new(7, 4).is_read());
        assert!(!KernelVersion::new(99, 1).is_read() && !KernelVersion::new(4, 19).is_read());
    }
}
