//! Windows of equal length over a trace whose length is not known before its end: when there are too many, two become one.

use super::Totals;

/// The most windows; where the trace is long enough there are half of that at least.
const MOST: usize = 20;
/// The first length of a window, ns.
const SHORTEST_NS: u64 = 1_000_000;

pub(super) struct Windows {
    done: Vec<Totals>,
    done_bytes: u64,
    pub(super) current: Totals,
    /// Memory of its stacks and of the waits of its tasks, bytes.
    pub(super) current_bytes: u64,
    length_ns: u64,
}

impl Default for Windows {
    fn default() -> Self {
        Windows {
            done: Vec::new(),
            done_bytes: 0,
            current: Totals::default(),
            current_bytes: 0,
            length_ns: SHORTEST_NS,
        }
    }
}

impl Windows {
    pub(super) fn begin(&mut self, at_ns: u64) {
        (self.current.begin_ns, self.current.end_ns) = (at_ns, at_ns);
    }

    /// The end of the current window, where it lies before a moment.
    pub(super) fn edge_before(&self, now: u64) -> Option<u64> {
        let edge_ns = self.current.begin_ns.saturating_add(self.length_ns);
        (edge_ns <= now && edge_ns > self.current.begin_ns).then_some(edge_ns)
    }

    /// The current window ends here, and the next one begins.
    pub(super) fn cut(&mut self, edge_ns: u64) {
        self.done_bytes += self.current.list_bytes() + std::mem::take(&mut self.current_bytes);
        let mut ended = std::mem::take(&mut self.current);
        ended.end_ns = edge_ns;
        self.done.push(ended);
        self.begin(edge_ns);
        if self.done.len() == MOST {
            self.length_ns = self.length_ns.saturating_mul(2);
            let mut whole = Vec::with_capacity(MOST);
            let mut halves = std::mem::take(&mut self.done).into_iter();
            while let Some(mut first) = halves.next() {
                if let Some(second) = halves.next() {
                    first.append(second);
                }
                whole.push(first);
            }
            self.done = whole;
            self.done_bytes = self.done.iter().map(Totals::memory_bytes).sum();
        }
    }

    /// Memory of all of them and of their evidence, bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.done_bytes + self.current.list_bytes() + self.current_bytes
    }

    /// All of them; a last one of less than half of the length belongs to the one before.
    pub(super) fn finish(mut self, last_ns: u64) -> Vec<Totals> {
        self.current.end_ns = last_ns;
        let is_short = last_ns.saturating_sub(self.current.begin_ns) * 2 < self.length_ns;
        match self.done.last_mut() {
            Some(before) if is_short => before.append(self.current),
            _ => self.done.push(self.current),
        }
        for totals in &mut self.done {
            // The place of tasks that are not under test.
            totals.tasks.remove(&0);
        }
        self.done
    }
}
