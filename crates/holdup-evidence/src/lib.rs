//! Collectors: what is measured beside a trial, in one window.
//!
//! - `collectors/` is the catalogue, one file or folder each. A collector starts when the window opens and stops when it
//!   closes; it reports its evidence, what it lost and what it cost. A source that does not exist here makes it
//!   unavailable, with the reason.
//! - `reading.rs` has those that compare two readings of a file, `tasks.rs` and `table.rs` the common files; `kernel/` has
//!   the BPF object; `processes.rs` has the mappings of the processes under test, for call stacks.
//!
//! Not here: opening /proc, perf events and packet sockets (`holdup-host`), section maps (`holdup-sections`), unwinding
//! (`holdup-stacks`), judging packets (`holdup-packets`), and any conclusion (`holdup-analysis`).
//!
//! Start with `collectors/migrations.rs`, then `kernel/mod.rs` and docs/evidence.md.

mod arch;
mod background;
pub mod collectors;
mod kernel;
mod postgres;
mod processes;
mod reading;
mod table;
mod tasks;

use holdup_host::Host;
pub use holdup_model::plan::CollectOptions;
use holdup_model::{Availability, Collected, MemoryBudget, Meta, Problem};
pub use kernel::{Part, keep_map};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// What a collector watches.
#[derive(Clone, Default)]
pub struct CollectContext {
    pub host: Host,
    /// The roots of the process trees of the system under test (the postmaster, the workload's
    /// own processes); their descendants belong to it.
    pub subjects: Vec<Subject>,
    /// How to reach the PostgreSQL server under test, for the `postgres` crate.
    pub postgres: Option<String>,
    /// The parts of the BPF object that the collectors of this window need, and the object once it is loaded.
    pub kernel: Kernel,
    /// What the user asked of collectors beside their names.
    pub options: CollectOptions,
    /// The folder in which section maps are kept from one run to the next; `None` to keep none.
    pub maps: Option<PathBuf>,
    /// Memory for programs that other users can write.
    pub foreign: ForeignPrograms,
}

/// Memory for what is read of programs that other users can write, all together. Another user who has such a program watched
/// chooses how many symbols it has.
#[derive(Debug, Clone)]
pub struct ForeignPrograms(pub(crate) MemoryBudget);

impl Default for ForeignPrograms {
    fn default() -> Self {
        ForeignPrograms(MemoryBudget::new(192 << 20))
    }
}

/// The BPF object that the collectors of a window share.
#[derive(Clone, Default)]
pub struct Kernel {
    parts: kernel::Parts,
    watch: Arc<OnceLock<Result<Arc<kernel::Watch>, String>>>,
}

impl CollectContext {
    /// Names the collectors that will be started in this window: the first of them that watches inside the kernel loads
    /// the parts of all.
    #[must_use]
    pub fn for_collectors(mut self, collectors: &[&dyn Collector]) -> Self {
        self.kernel = Kernel::default();
        collectors.iter().filter_map(|c| c.part()).for_each(|part| self.kernel.parts.add(part));
        self
    }

    /// The text of /proc/PID/cgroup of the first process under test, or of this one where none is known yet.
    pub(crate) fn control_groups(&self) -> Result<String, String> {
        let process = self.subjects.first().map_or_else(|| "self".to_owned(), |s| s.pid.to_string());
        self.host.read_text(&format!("/proc/{process}/cgroup")).map_err(|e| e.to_string())
    }

    /// The BPF object, loaded at the first call.
    pub(crate) fn watch(&self, collector: &dyn Collector) -> Result<Arc<kernel::Watch>, Problem> {
        let mut parts = self.kernel.parts.clone();
        collector.part().into_iter().for_each(|part| parts.add(part));
        let watch = self.kernel.watch.get_or_init(|| kernel::Watch::start(self, &parts).map(Arc::new));
        watch.clone().map_err(|why| Problem::host(format!("collector {}", collector.meta().id), why))
    }
}

/// A process tree under test, with what reports call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// `server`, `load`, `command`.
    pub role: String,
    /// The root of the tree.
    pub pid: u32,
}

/// Names, units and meanings of a collector's items.
pub type Produces = &'static [(&'static str, &'static str, &'static str)];

/// What a collector declares.
#[derive(Debug, Clone, Copy)]
pub struct About {
    meta: &'static Meta,
    produces: Produces,
    is_default: bool,
    needs_postgres: bool,
    part: Option<&'static Part>,
}

impl About {
    /// A collector that runs when it is asked for, without a server and without BPF.
    fn of(meta: &'static Meta, produces: Produces) -> Self {
        About { meta, produces, is_default: false, needs_postgres: false, part: None }
    }
}

pub trait Collector: Sync {
    /// What it declares.
    fn about(&self) -> About;

    /// Its documentation.
    fn meta(&self) -> &'static Meta {
        self.about().meta
    }

    /// Its items, as (name, unit, meaning).
    fn produces(&self) -> Produces {
        self.about().produces
    }

    /// True if it runs when a plan names no collectors.
    fn is_default(&self) -> bool {
        self.about().is_default
    }

    /// True if it needs a PostgreSQL server; asked before there is one.
    fn needs_postgres(&self) -> bool {
        self.about().needs_postgres
    }

    /// Its part of the BPF object.
    fn part(&self) -> Option<&'static Part> {
        self.about().part
    }

    /// Whether it can work here. Never writes.
    fn probe(&self, context: &CollectContext) -> Availability;

    /// Begins to watch.
    ///
    /// # Errors
    /// When its source cannot be read after all.
    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem>;
}

/// A collector at work.
pub trait Collecting: Send {
    /// The collector as one that continues from window to window; `None` where it is stopped and started again.
    fn continuous(&mut self) -> Option<&mut dyn Continuous> {
        None
    }

    /// Ends watching. A source that broke meanwhile gives absent items, not an error of the trial.
    fn stop(self: Box<Self>) -> Collected;
}

/// A collector at work that continues from one window to the next without a gap.
pub trait Continuous {
    /// The window ends now; what it counted is asked for by the next cut or stop.
    fn edge(&mut self) {}

    /// The evidence since the start or the last cut.
    fn cut(&mut self) -> Collected;
}

/// True if one of these collectors asks for the section maps of the programs under test.
pub fn want_sections(ids: &[String]) -> bool {
    ids.iter().filter_map(|id| find(id)?.part()).any(Part::has_sections)
}

pub fn find(id: &str) -> Option<&'static dyn Collector> {
    collectors::ALL.iter().copied().find(|c| c.meta().id == id)
}
