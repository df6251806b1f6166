//! Which tasks of a trace are under test.

use super::Totals;
use crate::event::{Name, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// All tasks, or those of some names and processes.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    names: BTreeSet<Name>,
    processes: BTreeSet<u32>,
}

impl Selection {
    /// Tasks with one of these names, or of one of these processes; without either all but the idle ones.
    pub fn new(names: &[String], processes: &[u32]) -> Self {
        Selection {
            names: names.iter().map(|name| Name::of(name.as_bytes())).collect(),
            processes: processes.iter().copied().collect(),
        }
    }

    /// True if it is of all tasks.
    pub(super) fn is_all(&self) -> bool {
        self.names.is_empty() && self.processes.is_empty()
    }

    /// In words: `all tasks of the trace`.
    pub fn in_words(&self) -> String {
        let names = self.names.iter().map(|name| format!("tasks named {}", name.text()));
        let processes = self.processes.iter().map(|pid| format!("process {pid}"));
        let all: Vec<String> = names.chain(processes).collect();
        if all.is_empty() { "all tasks of the trace".to_owned() } else { all.join(", ") }
    }

    pub(super) fn has(&self, task: &TaskId, processes: &BTreeMap<u32, u32>) -> bool {
        let of_process = |pid: &u32| *pid == task.tid || processes.get(&task.tid) == Some(pid);
        task.tid != 0 && (self.is_all() || self.names.contains(&task.name) || self.processes.iter().any(of_process))
    }

    /// That nothing of it is in the trace.
    pub(super) fn nothing_found(&self, windows: &[Totals]) -> Option<String> {
        let is_empty = windows.iter().all(|totals| totals.tasks.is_empty());
        (is_empty && !self.is_all()).then(|| format!("{}: no event of the trace is of these", self.in_words()))
    }
}
