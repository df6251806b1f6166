//! What a CPU runs, and for how long it has run tasks of each kind: what others wait behind.

use super::totals;
use crate::event::{Name, TaskId};

/// Tasks under test, other tasks, and the same of a real-time class.
pub(super) const CLOCKS: usize = 4;
const OWN: usize = 0;
const OTHER: usize = 1;
const OWN_CLASS: usize = 2;
const OTHER_CLASS: usize = 3;

/// A longer time than this ago is not lately.
const LATELY_NS: u64 = 50_000_000;

/// The clock of a task.
pub(super) fn clock(is_watched: bool, is_real_time: bool) -> usize {
    match (is_watched, is_real_time) {
        (true, false) => OWN,
        (false, false) => OTHER,
        (true, true) => OWN_CLASS,
        (false, true) => OTHER_CLASS,
    }
}

/// What a task waits behind while its CPU runs one of this kind.
pub(super) fn behind(clock: usize, is_real_time: bool) -> usize {
    match clock {
        OWN => totals::BEHIND_OWN,
        OWN_CLASS if is_real_time => totals::BEHIND_OWN,
        OTHER => totals::BEHIND_OTHER,
        _ if is_real_time => totals::BEHIND_OTHER,
        _ => totals::BEHIND_CLASS,
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Cpu {
    /// The task on it; `None` where that is not known.
    pub(super) current: Option<u32>,
    runs: Option<usize>,
    /// Since when the current task has it, 0 where that is not known, and until when its time is counted.
    pub(super) since_ns: u64,
    counted_ns: u64,
    clocks: [u64; CLOCKS],
    /// The last task of each kind.
    pub(super) names: [Name; CLOCKS],
    /// The task that was woken here last, and when.
    pub(super) woken: Option<u32>,
    pub(super) woken_ns: u64,
    /// The task that had it for longest lately.
    longest: Longest,
}

#[derive(Debug, Clone, Copy, Default)]
struct Longest {
    begin_ns: u64,
    end_ns: u64,
    is_in_kernel: bool,
    name: Name,
}

impl Cpu {
    /// What it runs is not known any more.
    pub(super) fn forget(&mut self) {
        (self.current, self.runs, self.since_ns) = (None, None, 0);
    }

    /// Its clocks at a moment.
    pub(super) fn clocks_at(&self, now: u64) -> [u64; CLOCKS] {
        let mut clocks = self.clocks;
        if let Some(runs) = self.runs.filter(|_| self.current.is_some()) {
            clocks[runs] += now.saturating_sub(self.counted_ns);
        }
        clocks
    }

    /// Brings the clocks forward; how much of the time it was idle, and how much is known.
    pub(super) fn cut(&mut self, now: u64) -> (u64, u64) {
        let Some(current) = self.current else { return (0, 0) };
        self.clocks = self.clocks_at(now);
        let ns = now.saturating_sub(self.counted_ns);
        self.counted_ns = now;
        (if current == 0 { ns } else { 0 }, ns)
    }

    /// Goes from one task to another; as [`Cpu::cut`].
    pub(super) fn switches(
        &mut self,
        now: u64,
        (from, from_runs, was_in_kernel): (TaskId, Option<usize>, bool),
        (to, to_runs): (TaskId, Option<usize>),
    ) -> (u64, u64) {
        let counted = self.cut(now);
        let ran_ns = now.saturating_sub(self.since_ns);
        let is_longest = ran_ns >= self.longest.end_ns - self.longest.begin_ns || now - self.longest.end_ns > LATELY_NS;
        if from_runs.is_some() && self.since_ns > 0 && is_longest {
            self.longest = Longest {
                begin_ns: self.since_ns,
                end_ns: now,
                is_in_kernel: was_in_kernel || from.name.is_of_kernel(),
                name: from.name,
            };
        }
        (self.current, self.runs, self.since_ns, self.counted_ns) = (Some(to.tid), to_runs, now, now);
        if let Some(runs) = to_runs {
            self.names[runs] = to.name;
        }
        counted
    }

    /// The task that kept one off this CPU from `woken_ns` on, and whether it was in the kernel: that which ran for most of the
    /// time, else the last one.
    pub(super) fn hog(&self, woken_ns: u64, now: u64, before: TaskId) -> (Name, bool) {
        let begin_ns = self.longest.begin_ns.max(woken_ns);
        let ran_ns = self.longest.end_ns.saturating_sub(begin_ns);
        match 2 * ran_ns >= now.saturating_sub(woken_ns) && ran_ns > 0 {
            true => (self.longest.name, self.longest.is_in_kernel),
            false => (before.name, before.tid != 0 && before.name.is_of_kernel()),
        }
    }
}
