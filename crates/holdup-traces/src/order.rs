//! The order of events where a file has them in another one: the rings of all CPUs were read in turn.

use crate::Sink;
use crate::event::Event;
use holdup_model::Problem;

/// More than this is never kept: where a file marks no rounds, the older half is handed on.
const MOST: usize = 2_000_000;

#[derive(Default)]
pub(crate) struct Order {
    held: Vec<Event>,
    /// The youngest event so far, and that of the end of the round before.
    pub(crate) newest_ns: u64,
    before_ns: u64,
    handed_on_ns: u64,
    /// Events that are older than one that was handed on.
    late: u64,
}

impl Order {
    pub(crate) fn add(&mut self, event: Event, sink: Sink<'_>) -> Result<(), Problem> {
        if event.at_ns < self.handed_on_ns {
            self.late += 1;
            return Ok(());
        }
        self.newest_ns = self.newest_ns.max(event.at_ns);
        self.held.push(event);
        if self.held.len() < MOST {
            return Ok(());
        }
        self.held.sort_by_key(|event| event.at_ns);
        let middle_ns = self.held[MOST / 2].at_ns;
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
            self.handed_on_ns = event.at_ns;
            sink(event)?;
        }
        Ok(())
    }
}
