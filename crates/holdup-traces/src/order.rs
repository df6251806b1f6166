//! The order of events where a file has them in another one: the rings of all CPUs were read in turn.

use crate::Sink;
use crate::bytes::File;
use crate::event::{Event, What};
use holdup_model::Problem;

/// More than this part of the memory is never kept: where a file marks no rounds, the older half is handed on.
const MOST_OF_MEMORY: u64 = 2;

pub(crate) struct Order<'a> {
    file: File<'a>,
    held: Vec<Event>,
    held_bytes: u64,
    /// The youngest event so far, and that of the end of the round before.
    pub(crate) newest_ns: u64,
    before_ns: u64,
    handed_on_ns: u64,
    /// Events that are older than one that was handed on.
    late: u64,
}

/// Memory of an event that is kept, and of its part in sorting, bytes.
fn bytes_of(event: &Event) -> u64 {
    let stack = if let What::Sample { stack, .. } = &event.what { size_of_val(&stack[..]) } else { 0 };
    (size_of::<Event>() * 3 / 2 + stack) as u64
}

impl<'a> Order<'a> {
    pub(crate) fn new(file: File<'a>) -> Self {
        Order { file, held: Vec::new(), held_bytes: 0, newest_ns: 0, before_ns: 0, handed_on_ns: 0, late: 0 }
    }

    pub(crate) fn add(&mut self, event: Event, sink: Sink<'_>) -> Result<(), Problem> {
        if event.at_ns < self.handed_on_ns {
            self.late += 1;
            return Ok(());
        }
        self.newest_ns = self.newest_ns.max(event.at_ns);
        let budget = self.file.budget;
        budget.take(bytes_of(&event)).map_err(|refused| refused.of(self.file.name))?;
        self.held_bytes += bytes_of(&event);
        self.held.push(event);
        if self.held_bytes < budget.bytes() / MOST_OF_MEMORY {
            return Ok(());
        }
        self.held.sort_by_key(|event| event.at_ns);
        let middle_ns = self.held[self.held.len() / 2].at_ns;
        self.hand_on(middle_ns, sink)
    }

    /// A round of perf ends: what comes after the next one is younger than all of this one (tools/perf/util/ordered-events.c, v6.18).
    pub(crate) fn end(&mut self, sink: Sink<'_>) -> Result<(), Problem> {
        let until_ns = std::mem::replace(&mut self.before_ns, self.newest_ns);
        self.held.sort_by_key(|event| event.at_ns);
        self.hand_on(until_ns, sink)
    }

    pub(crate) fn finish(&mut self, sink: Sink<'_>) -> Result<(), Problem> {
        self.held.sort_by_key(|event| event.at_ns);
        self.hand_on(u64::MAX, sink)
    }

    /// That events were too late.
    pub(crate) fn note(&self) -> Option<String> {
        let late = self.late;
        (late > 0).then(|| format!("{late} events came later than the order of their times allows and are left out"))
    }

    fn hand_on(&mut self, until_ns: u64, sink: Sink<'_>) -> Result<(), Problem> {
        let count = self.held.partition_point(|event| event.at_ns <= until_ns);
        for event in self.held.drain(..count) {
            self.held_bytes -= bytes_of(&event);
            self.file.budget.give(bytes_of(&event));
            self.handed_on_ns = event.at_ns;
            sink(event)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::MemoryBudget;

    #[test]
    fn events_wait_in_half_of_the_memory() {
        let event = |at_ns| Event { at_ns, cpu: 0, what: What::Sample { tid: 1, name: None, stack: vec![1; 4] } };
        let budget = MemoryBudget::new(20 * (size_of::<Event>() as u64 * 3 / 2 + 16));
        let mut order = Order::new(File { bytes: &"", name: "it", budget: &budget });
        let mut handed_on = Vec::new();
        let mut add = |at_ns, order: &mut Order<'_>| {
            let mut sink = |event: Event| {
                handed_on.push(event.at_ns);
                Ok(())
            };
            order.add(event(at_ns), &mut sink)
        };
        (0..9).rev().for_each(|at_ns| add(at_ns, &mut order).expect("there is memory"));
        assert_eq!(budget.left(), budget.bytes() / 20 * 11);
        add(9, &mut order).expect("there is memory");
        assert_eq!(budget.left(), budget.bytes() / 20 * 16);
        budget.take(budget.left()).expect("there is so much");
        assert!(add(10, &mut order).expect_err("is refused").why.contains("takes more than"));
        assert_eq!(handed_on, [0, 1, 2, 3, 4, 5]);
    }
}
