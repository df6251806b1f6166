//! What `holdup check` finds on a host: every fact with its source, or the reason why it is not known.
//!
//! The host layer fills it, the cases judge it, reports print it. Nothing here reads anything.

use serde::Serialize;

/// Something that was looked for: what it is and where that stands, or why it is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Known<T> {
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

impl<T> Known<T> {
    /// Something that was found.
    pub fn found(value: T, source: impl Into<String>) -> Self {
        Known { value: Some(value), source: source.into(), why_unknown: None, remedy: None }
    }

    /// Something that is not known.
    pub fn unknown(source: impl Into<String>, why: impl Into<String>) -> Self {
        Known { value: None, source: source.into(), why_unknown: Some(why.into()), remedy: None }
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
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Known<U> {
        Known { value: self.value.map(f), source: self.source, why_unknown: self.why_unknown, remedy: self.remedy }
    }

    /// The same thing seen through a function that may find it to be nonsense, and then says why.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Result<U, String>) -> Known<U> {
        match self.value.map(f) {
            None => Known { value: None, source: self.source, why_unknown: self.why_unknown, remedy: self.remedy },
            Some(Ok(value)) => Known::found(value, self.source),
            Some(Err(why)) => Known::unknown(self.source, why),
        }
    }
}

impl<T: Clone> Known<T> {
    /// The value as a thing of its own.
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
    pub servers: Known<Vec<Server>>,
    /// What the behavioural probe measured, where it was asked for.
    pub probe: Option<Probed>,
}

/// A kernel's version, as far as what it can do depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct KernelVersion {
    /// 6 in 6.18.15.
    pub major: u32,
    /// 18 in 6.18.15.
    pub minor: u32,
}

impl KernelVersion {
    /// The oldest whose defaults are known here.
    pub const OLDEST_READ: Self = KernelVersion { major: 5, minor: 4 };
    /// The newest whose source was read for what is said here.
    pub const NEWEST_READ: Self = KernelVersion { major: 7, minor: 3 };

    /// A version by its numbers.
    pub const fn new(major: u32, minor: u32) -> Self {
        KernelVersion { major, minor }
    }

    /// The version at the head of a release such as `6.18.15+deb13-amd64` or `5.14.0-503.el9.x86_64`.
    pub fn of_release(release: &str) -> Option<Self> {
        let mut numbers = release.split('.').map(|part| {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..end].parse::<u32>().ok()
        });
        let (major, minor) = (numbers.next()??, numbers.next()??);
        release.as_bytes().first().is_some_and(u8::is_ascii_digit).then_some(KernelVersion { major, minor })
    }

    /// Whether what is said here about versions was read in this one's source.
    pub fn is_read(self) -> bool {
        (Self::OLDEST_READ..=Self::NEWEST_READ).contains(&self)
    }
}

impl std::fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kernel {
    /// As `uname -r` prints it.
    pub release: Known<String>,
    /// The numbers at its head.
    pub version: Known<KernelVersion>,
    /// Whether its vendor is known to put newer parts into older versions, so that a version says less (`.el9`).
    pub has_backports: bool,
    /// As `uname -m` prints it: `x86_64`, `aarch64`.
    pub architecture: Known<String>,
    /// The command line.
    pub command_line: Known<String>,
    /// Whether and how far it is locked down: `none`, `integrity`, `confidentiality`.
    pub lockdown: Known<String>,
    /// Ticks in a second.
    pub hz: Known<u32>,
    /// The distribution.
    pub distribution: Known<String>,
}

/// How the kernel preempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Kernel code is left at its own wish only.
    None,
    /// The same, with more places where it may.
    Voluntary,
    /// Kernel code is preempted at once.
    Full,
    /// Kernel code is preempted at the tick, user code on return.
    Lazy,
    /// PREEMPT_RT.
    Rt,
}

impl Model {
    /// The word of the kernel for it.
    pub fn word(self) -> &'static str {
        match self {
            Model::None => "none",
            Model::Voluntary => "voluntary",
            Model::Full => "full",
            Model::Lazy => "lazy",
            Model::Rt => "rt",
        }
    }

    /// The model of a word, but for `rt`, which no file names.
    pub fn of_word(word: &str) -> Option<Self> {
        [Model::None, Model::Voluntary, Model::Full, Model::Lazy].into_iter().find(|model| model.word() == word)
    }

    /// Whether a task can lose its CPU inside the kernel other than at its own wish.
    pub fn preempts_kernel_code(self) -> bool {
        matches!(self, Model::Full | Model::Lazy | Model::Rt)
    }
}

/// What one source says of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Witness {
    /// The source.
    pub source: String,
    /// The models that agree with what it says; empty when it does not tell.
    pub says: Vec<Model>,
    /// Its words, or why it does not tell.
    pub note: String,
}

/// The preemption model in force, with all who were asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preemption {
    /// The model that the best source names.
    pub model: Known<Model>,
    /// The models that this kernel can be switched to; one where it is fixed when built.
    pub choices: Known<Vec<Model>>,
    /// What `preempt=` on the command line asks for.
    pub asked: Option<String>,
    /// Why what was asked for did not come about.
    pub refused: Option<String>,
    /// All sources, the best first.
    pub witnesses: Vec<Witness>,
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
    pub value: Known<String>,
    /// The default of this version on this machine; `None` when it is not known or there is none.
    pub default: Option<String>,
    /// What is said of such a value elsewhere, with the evidence for and against.
    pub folklore: Option<String>,
}

impl Setting {
    /// Whether the value is the default; `None` when either is not known.
    pub fn is_default(&self) -> Option<bool> {
        Some(self.value.get()? == self.default.as_ref()?)
    }
}

/// Whether the time slice extension of rseq (7.0 and later) can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SliceExtension {
    /// Whether a program can use it here through the C library's registration.
    pub usable: Known<bool>,
    /// What was found on the way, one sentence each.
    pub reasons: Vec<String>,
    /// What the kernel allows, in ns.
    pub length_ns: Known<u64>,
    /// The length of rseq that the kernel offers (AT_RSEQ_FEATURE_SIZE), in bytes.
    pub feature_size_bytes: Known<u64>,
    /// The version of the C library.
    pub libc: Known<String>,
}

/// Processors and what is taken from them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachineSurvey {
    /// CPUs that are online.
    pub cpus_online: Known<u32>,
    /// NUMA nodes.
    pub numa_nodes: Known<u32>,
    /// The share of CPU time since boot in which the hypervisor ran something else, from 0 to 1.
    pub steal_share: Known<f64>,
    /// Whether it is a virtual machine, and which where it tells.
    pub hypervisor: Known<String>,
    /// The governor of the CPU frequency.
    pub governor: Known<String>,
    /// The tightest CPU limit on the way from the processes looked at to the root group, in CPUs; `None` inside: no limit.
    pub cpu_limit_cpus: Known<Option<f64>>,
    /// Periods of that limit in which the group was throttled, since it was made.
    pub throttled_periods: Known<u64>,
    /// What has a virtual switch or guests run in this kernel: modules and threads that were seen.
    pub virtual_switch: Known<Vec<String>>,
    /// The share of time in which some task waited for a CPU, over the last 5 minutes, from 0 to 1.
    pub cpu_pressure_share: Known<f64>,
}

/// Memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemorySurvey {
    /// Memory of the machine, in bytes.
    pub total_bytes: Known<u64>,
    /// Memory that programs can have without swapping, in bytes.
    pub available_bytes: Known<u64>,
    /// Page tables of all processes, in bytes.
    pub page_tables_bytes: Known<u64>,
    /// Huge pages of the default size in the pool.
    pub huge_pages_total: Known<u64>,
    /// Memory in huge pages of every size (Hugetlb), in bytes.
    pub huge_pages_all_bytes: Known<u64>,
    /// Those that nobody has taken or reserved.
    pub huge_pages_free: Known<u64>,
    /// The default size of a huge page, in bytes.
    pub huge_page_bytes: Known<u64>,
    /// `always`, `madvise`, `never`.
    pub transparent_huge_pages: Known<String>,
    /// The share of time in which some task waited for memory, over the last 5 minutes, from 0 to 1.
    pub memory_pressure_share: Known<f64>,
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
    /// Whether new pages still come from the freelist, under its spinlock.
    pub fn is_cold(self) -> bool {
        self.unused_buffers > 0
    }
}

/// A PostgreSQL server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Server {
    /// How it is told apart: `postmaster 812`, `/var/lib/postgresql/17/main`, `host=… port=…` (never a password).
    pub name: String,
    /// The postmaster.
    pub pid: Known<u32>,
    /// Its data directory.
    pub data_directory: Known<String>,
    /// Major version: 15, 17.
    pub major_version: Known<u32>,
    /// The version in full, where it is known: `17.11`.
    pub version: Known<String>,
    /// `shared_buffers`, in bytes.
    pub shared_buffers_bytes: Known<u64>,
    /// `huge_pages` as set.
    pub huge_pages_asked: Known<HugePagesAsked>,
    /// Whether the shared memory lies on huge pages.
    pub huge_pages_in_effect: Known<bool>,
    /// `max_connections`.
    pub max_connections: Known<u32>,
    /// Client connections now.
    pub clients: Known<u32>,
    /// Client connections that run something now.
    pub active_clients: Known<u32>,
    /// Page tables of its processes together (VmPTE), in bytes.
    pub page_tables_bytes: Known<u64>,
    /// The largest page table of one process, in bytes.
    pub page_tables_largest_bytes: Known<u64>,
    /// How full the buffer pool is.
    pub pool: Known<Pool>,
    /// Client connections that were seen waiting for a spinlock, of how many looks at one.
    pub spin_waits: Known<SpinWaits>,
    /// Whether it is scheduled in the root task group, the only one in which autogroup acts.
    pub is_in_root_task_group: Known<bool>,
    /// The tightest CPU limit on the way from its control group to the root, in CPUs; `None` inside: no limit.
    pub cpu_limit_cpus: Known<Option<f64>>,
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
    pub models: Known<Vec<Model>>,
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
    /// What would tell is not known.
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
