//! Observers: none, the bare reference, our collectors by name, and the peers.

use crate::arguments::Arguments;
use crate::bare::Bare;
use crate::cpu_time;
use crate::peers::Peers;
use holdup_evidence::{CollectContext, Collecting, Collector, Subject};
use holdup_model::{Availability, Collected};

/// All that are tried when none are named; a name that is none of the others is of collectors, joined by `+`.
pub(crate) const ALL: [&str; 16] = [
    "none",
    "bare",
    "switches",
    "switches+critical-sections+faults",
    "account+switches+critical-sections+faults",
    "switches+critical-sections+faults+kworkers",
    "cpu-profile",
    "off-cpu",
    "perf-sched",
    "perf-switch",
    "runqlat",
    "bpftrace",
    "rezolus",
    "wprof",
    "exporter",
    "node_exporter",
];

/// What an observer says of itself at its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    /// Runs of its BPF programs and the time that they took, ns, by the kernel's account.
    pub(crate) bpf: Option<(u64, u64)>,
    pub(crate) seen: u64,
    pub(crate) lost: u64,
    pub(crate) memory_bytes: u64,
    /// Bytes that it wrote.
    pub(crate) bytes: u64,
    /// What else it says of what it missed.
    pub(crate) notes: Vec<String>,
}

pub(crate) trait Watching {
    /// CPU time that its own process took so far, s.
    fn cpu_s(&self) -> f64;

    fn stop(self: Box<Self>) -> Result<Said, String>;
}

/// What is needed to start any of them.
pub(crate) struct Observers {
    bare: Bare,
    peers: Peers,
}

impl Observers {
    pub(crate) fn new(arguments: &Arguments) -> Result<Self, String> {
        Ok(Observers { bare: Bare::compile()?, peers: Peers::new(arguments)? })
    }

    /// Attaches one; it watches when this comes back.
    pub(crate) fn start(&self, name: &str, subjects: Vec<Subject>) -> Result<Box<dyn Watching>, String> {
        match name {
            "none" | "none again" => Ok(Box::new(Nothing)),
            "bare" => self.bare.start(),
            "perf-sched" | "perf-switch" | "runqlat" | "bpftrace" | "rezolus" | "wprof" | "exporter"
            | "node_exporter" => self.peers.start(name, &subjects),
            collectors => ours(collectors, subjects),
        }
    }
}

struct Nothing;

impl Watching for Nothing {
    fn cpu_s(&self) -> f64 {
        0.0
    }

    fn stop(self: Box<Self>) -> Result<Said, String> {
        Ok(Said::default())
    }
}

struct Ours(Vec<Box<dyn Collecting>>);

fn ours(names: &str, subjects: Vec<Subject>) -> Result<Box<dyn Watching>, String> {
    let mut all: Vec<&dyn Collector> = Vec::new();
    for name in names.split('+') {
        all.push(holdup_evidence::find(name).ok_or_else(|| format!("there is no collector {name}"))?);
    }
    let context = CollectContext { subjects, ..CollectContext::default() }.for_collectors(&all);
    let mut running = Vec::new();
    for collector in all {
        if let Availability::Unavailable { reason, .. } = collector.probe(&context) {
            return Err(format!("{}: {reason}", collector.meta().id));
        }
        running.push(collector.start(&context).map_err(|problem| problem.to_string())?);
    }
    Ok(Box::new(Ours(running)))
}

impl Watching for Ours {
    fn cpu_s(&self) -> f64 {
        cpu_time::of_this()
    }

    fn stop(self: Box<Self>) -> Result<Said, String> {
        let collected: Vec<Collected> = self.0.into_iter().map(Collecting::stop).collect();
        // The programs of all collectors are one object, and each reports the cost of the whole.
        let most = |of: fn(&Collected) -> u64| collected.iter().map(of).max().unwrap_or(0);
        Ok(Said {
            bpf: collected.iter().filter_map(|c| c.cost.bpf).map(|bpf| (bpf.runs, bpf.run_ns)).max(),
            seen: most(|c| c.coverage.seen),
            lost: most(|c| c.coverage.lost),
            memory_bytes: most(|c| c.cost.memory_bytes),
            bytes: 0,
            notes: collected.into_iter().flat_map(|c| c.coverage.notes).collect(),
        })
    }
}
