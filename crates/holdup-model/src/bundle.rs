//! All that a bundle holds, as analysis sees it.

use crate::arm::Schedule;
use crate::catalogue::Availability;
use crate::environment::{EnvironmentReading, Machine};
use crate::metric::Metric;
use crate::plan::Plan;
use crate::trial::Trial;
use serde::{Deserialize, Serialize};

/// The head of a bundle: what ran, where, by which holdup.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BundleHead {
    /// A random name of this run, hexadecimal.
    pub run_id: String,
    /// The version of holdup that wrote it.
    pub holdup_version: String,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// When it was begun, ns since 1970.
    pub created_unix_ns: i64,
    /// The target that the trials ran on.
    pub target: String,
    /// When times are not those of hardware: what they are, as it follows "times here are" (`emulated by QEMU
    /// TCG`, `simulated`).
    pub emulated: Option<String>,
    /// The machine that relative sizes were resolved against.
    pub machine: Machine,
}

/// The target of a bundle that was imported: nothing was run, and nothing is known of a host.
pub const IMPORTED: &str = "import";

impl BundleHead {
    /// True if it was imported from what other programs captured or measured.
    pub fn is_imported(&self) -> bool {
        self.target == IMPORTED
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Ending {
    /// All planned blocks were run.
    Complete,
    /// Every headline had its verdict before the last planned block.
    Decided,
    /// The budget was used up at a block's end.
    Budget,
    /// A signal ended it; the host was restored.
    Interrupted,
    /// It could not go on.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Whether a collector could work, asked before the first trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CollectorState {
    /// The collector's id.
    pub id: String,
    /// Whether it could work.
    pub availability: Availability,
}

/// What a guest wrote during one boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootLog {
    /// The session that the boot belongs to, from 0.
    pub session: u32,
    /// The boot, from 0, counted over all sessions. A boot that was tried again has several logs of one name.
    pub boot: u32,
    /// What wrote it: `console`, `kernel`.
    pub name: String,
    /// The text; what is not UTF-8 became U+FFFD, and a line in the middle says what was left out.
    pub text: String,
    /// Its size as the guest wrote it, bytes.
    pub bytes: u64,
    /// How much of it was left out of the middle, bytes; 0 for none.
    pub trimmed_bytes: u64,
}

/// A whole bundle in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct BundleData {
    /// What ran, where, by which holdup.
    pub head: BundleHead,
    /// The checked plan.
    pub plan: Plan,
    /// The plan as TOML, as the user wrote it or as the command line came to.
    pub plan_source: String,
    /// The arms and the planned order.
    pub schedule: Schedule,
    /// The metrics of each workload, as (workload name in the plan, metric).
    pub metrics: Vec<(String, Metric)>,
    /// The collectors that the plan asked for.
    pub collectors: Vec<CollectorState>,
    /// The environment at the begin of each boot, in the order read. What was opened again has several readings.
    pub environment: Vec<EnvironmentReading>,
    /// Every trial in the order run, void ones included.
    pub trials: Vec<Trial>,
    /// What happened beside the trials: restarts, warnings. As (ns since 1970, text).
    pub log: Vec<(i64, String)>,
    /// What guests wrote, boot by boot, in the order kept; empty where trials ran on the host itself.
    pub boot_logs: Vec<BootLog>,
    /// How the run ended; `None` when it never did (a crash, or still running).
    pub ending: Option<Ending>,
}

/// The kind of workload of a record: it watches, and starts nothing.
pub const OBSERVED: &str = "observed";

impl BundleData {
    /// One in which nothing has been measured yet.
    pub fn begun(head: BundleHead, plan: Plan, schedule: Schedule) -> Self {
        BundleData {
            head,
            plan,
            plan_source: String::new(),
            schedule,
            metrics: Vec::new(),
            collectors: Vec::new(),
            environment: Vec::new(),
            trials: Vec::new(),
            log: Vec::new(),
            boot_logs: Vec::new(),
            ending: None,
        }
    }

    /// True if it was imported from traces of the scheduler, which are like a record.
    pub fn is_of_traces(&self) -> bool {
        self.head.is_imported() && self.is_of_watching()
    }

    /// True if nothing was run in it: all was there already, and was watched.
    pub fn is_of_watching(&self) -> bool {
        !self.plan.workloads.is_empty() && self.plan.workloads.iter().all(|w| w.kind == OBSERVED)
    }

    /// True if it was imported from captures of packets, which have no metric; results of other benchmarks have.
    pub fn is_of_captures(&self) -> bool {
        self.head.is_imported() && self.metrics.is_empty()
    }

    /// Why a record is complete before its last window: what it watched ended, and when.
    pub fn subject_end(&self) -> Option<&str> {
        let is_record = self.is_of_watching() && !self.head.is_imported();
        let is_whole = is_record && self.ending == Some(Ending::Complete);
        self.log.last().filter(|_| is_whole).map(|(_, text)| text.as_str())
    }
}
