//! Windows of equal length over a trace whose length is not known before its end: when there are too many, two become one.

use super::Totals;

/// The most windows; where the trace is long enough there are half of that at least.
const MOST: usize = 20;
/// The first length of a window, ns.
const SHORTEST_NS: u64 = 1_000_000;

pub(super) struct Windows {
    done: Vec<Totals>,
    pub(super) current: Totals,
    length_ns: u64,
}

impl Default for Windows {
    fn default() -> Self {
        Windows { done: Vec::new(), current: Totals::default(), length_ns: SHORTEST_NS }
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
        }
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
