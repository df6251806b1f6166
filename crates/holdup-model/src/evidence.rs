//! What a collector saw, with its window, its losses and its own cost.

use crate::captures::CaptureRecord;
use crate::metric::Measured;
use crate::sparse::SparseHistogram;
use crate::stacks::StackProfile;
use crate::timeline::Timeline;
use serde::{Deserialize, Serialize};

/// One number of evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvidenceItem {
    /// Its name, unit last (`run_queue_wait_ns`).
    pub name: String,
    /// What it is about when there are several, such as a softirq or a wait event.
    pub label: Option<String>,
    /// Its unit (`s`, `1`, `bytes`, `share`).
    pub unit: String,
    /// The number, or why there is none.
    pub value: Measured,
}

impl EvidenceItem {
    /// A number without a label.
    pub fn new(name: impl Into<String>, unit: impl Into<String>, value: f64) -> Self {
        EvidenceItem { name: name.into(), label: None, unit: unit.into(), value: Measured::Value(value) }
    }

    /// A number with a label.
    pub fn labelled(name: impl Into<String>, label: impl Into<String>, unit: impl Into<String>, value: f64) -> Self {
        EvidenceItem { name: name.into(), label: Some(label.into()), unit: unit.into(), value: Measured::Value(value) }
    }

    /// A number that could not be had.
    pub fn absent(name: impl Into<String>, unit: impl Into<String>, why: impl Into<String>) -> Self {
        EvidenceItem { name: name.into(), label: None, unit: unit.into(), value: Measured::Absent(why.into()) }
    }
}

/// How much of the window a collector saw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Samples or events seen; 2 for a pair of counter readings.
    pub seen: u64,
    /// Samples or events known to be lost.
    pub lost: u64,
    /// What else was missed, in words: tasks that ended between two readings, for example.
    pub notes: Vec<String>,
}

/// What looking cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfCost {
    /// CPU time of the collector's own code inside the window, ns. For collectors that read at
    /// the window's edges only, the time of those readings.
    pub cpu_ns: u64,
    /// How often it woke up or was called.
    pub wakeups: u64,
    /// Bytes read.
    pub bytes: u64,
    /// What its BPF programs took, in the context of the tasks that they watch; `None` where it has none, or where the
    /// kernel does not say (`kernel.bpf_stats_enabled`).
    #[serde(default)]
    pub bpf: Option<BpfCost>,
    /// Memory of its maps, rings and tables, bytes.
    #[serde(default)]
    pub memory_bytes: u64,
}

/// What BPF programs took, by the kernel's own account (BPF_ENABLE_STATS).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BpfCost {
    /// How often they ran.
    pub runs: u64,
    /// For how long, ns, all CPUs together.
    pub run_ns: u64,
}

/// A histogram of evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EvidenceHistogram {
    /// Its name, unit last (`run_queue_wait_ns`).
    pub name: String,
    /// What it is about when there are several.
    pub label: Option<String>,
    /// The counts; values in ns.
    pub histogram: SparseHistogram,
}

/// All that one collector brought from one trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Collected {
    /// The collector's id.
    pub collector: String,
    /// What it saw.
    pub items: Vec<EvidenceItem>,
    /// How much of the window it saw.
    pub coverage: Coverage,
    /// What it cost.
    pub cost: SelfCost,
    /// Its distributions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histograms: Vec<EvidenceHistogram>,
    /// Its call stacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackProfile>,
    /// What it saw event by event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// The connections that it saw, and the worst of them over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureRecord>,
}

impl Collected {
    /// Everything that a collector would have brought (names, units and meanings), absent with one reason.
    pub fn absent(collector: &str, produces: &[(&str, &str, &str)], why: &str) -> Collected {
        Collected {
            collector: collector.to_owned(),
            items: produces.iter().map(|(name, unit, _)| EvidenceItem::absent(*name, *unit, why)).collect(),
            coverage: Coverage { seen: 0, lost: 0, notes: vec![why.to_owned()] },
            ..Collected::default()
        }
    }

    /// Why all of it is absent.
    pub fn absence(&self) -> Option<&str> {
        let [why] = self.coverage.notes.as_slice() else { return None };
        let is_absent = |item: &EvidenceItem| matches!(&item.value, Measured::Absent(reason) if reason == why);
        (!self.items.is_empty() && self.items.iter().all(is_absent)).then_some(why.as_str())
    }
}
