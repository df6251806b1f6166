//! Connections over time in one pass: the packets of a live capture are not stored.
//!
//! Which connections will be worst is not known while they run, so a fixed number is traced at a time:
//!
//! - A new connection is traced while there is a free slot. Otherwise it replaces a traced one without trouble, if one of the
//!   next few slots has one.
//! - A connection that is not traced and has more trouble than the least troubled traced one replaces it, and its trace begins
//!   there.
//!
//! The cost: with more concurrent connections than slots, the beginning of a trace is missing, and a connection that had little
//! trouble for long may have none. A connection that is not traced costs 8 bytes.

use crate::analyse::Flows;
use crate::flows::Flow;
use crate::kinds::{Kind, MarkClass};
use crate::segment::Segment;
use crate::trace::{Tracer, shown, worst_of};
use crate::wireshark::{Kinds, Marks};
use holdup_model::captures::CaptureTrace;

/// The number of slots.
pub const SLOTS: usize = 128;

/// The largest number of points of a direction.
pub const MOST_POINTS: usize = 1_000;

/// Slots that a new connection examines.
const EXAMINED: usize = 8;

const NONE: u16 = u16::MAX;

/// Of every connection.
#[derive(Debug, Clone, Copy)]
struct Tracked {
    trouble: u32,
    place: u16,
}

/// A traced connection, in both directions, because which one matters is not known.
struct Traced {
    stream: u32,
    ways: [Tracer; 2],
}

/// The traces of one live capture.
pub struct Live {
    troubling: Kinds,
    tracked: Vec<Tracked>,
    slots: Vec<Traced>,
    /// The next slot to examine.
    hand: usize,
}

impl Default for Live {
    fn default() -> Self {
        let mut troubling = Kinds::NONE;
        Kind::ALL.iter().filter(|kind| kind.class() == MarkClass::Trouble).for_each(|kind| troubling.add(*kind));
        Live { troubling, tracked: Vec::new(), slots: Vec::new(), hand: 0 }
    }
}

impl Live {
    /// Adds a judged segment. Connections are numbered from 0 as they begin.
    pub fn add(&mut self, segment: &Segment, marks: &Marks) {
        let stream = marks.stream as usize;
        if stream >= self.tracked.len() {
            self.tracked.resize(stream, Tracked { trouble: 0, place: NONE });
            let place = self.slot_for_new();
            self.tracked.push(Tracked { trouble: 0, place: NONE });
            if let Some(place) = place {
                self.begin(place, marks.stream, segment.at_ns);
            }
        }
        if marks.kinds.has_any(self.troubling) {
            let count = marks.kinds.iter().filter(|kind| self.troubling.has(*kind)).count() as u32;
            let tracked = &mut self.tracked[stream];
            tracked.trouble = tracked.trouble.saturating_add(count);
            if tracked.place == NONE
                && let Some(place) = self.slot_for(self.tracked[stream].trouble)
            {
                self.begin(place, marks.stream, segment.at_ns);
            }
        }
        if let Some(traced) = self.slots.get_mut(usize::from(self.tracked[stream].place)) {
            let is_retransmission = marks.kinds.has(Kind::Retransmission);
            traced.ways.iter_mut().for_each(|way| way.add(segment, marks.direction, is_retransmission));
        }
    }

    fn trouble_at(&self, slot: usize) -> u32 {
        self.tracked[self.slots[slot].stream as usize].trouble
    }

    fn slot_for_new(&mut self) -> Option<usize> {
        if self.slots.len() < SLOTS {
            return Some(self.slots.len());
        }
        for _ in 0..EXAMINED {
            self.hand = (self.hand + 1) % SLOTS;
            if self.trouble_at(self.hand) == 0 {
                return Some(self.hand);
            }
        }
        None
    }

    /// The slot of the least troubled connection, if it has less trouble than this.
    fn slot_for(&self, trouble: u32) -> Option<usize> {
        let least = (0..self.slots.len()).min_by_key(|place| self.trouble_at(*place))?;
        (self.trouble_at(least) < trouble).then_some(least)
    }

    fn begin(&mut self, place: usize, stream: u32, at_ns: i64) {
        let traced = Traced { stream, ways: [0, 1].map(|way| Tracer::new(way, at_ns, MOST_POINTS)) };
        match self.slots.get_mut(place) {
            Some(before) => {
                self.tracked[before.stream as usize].place = NONE;
                *before = traced;
            }
            None => self.slots.push(traced),
        }
        self.tracked[stream as usize].place = place as u16;
    }

    /// The memory of the traces, bytes.
    pub fn memory_bytes(&self) -> u64 {
        let points: usize = self.slots.iter().flat_map(|p| &p.ways).map(Tracer::memory_bytes).sum();
        (points + self.tracked.capacity() * size_of::<Tracked>()) as u64
    }

    /// The traces of the worst connections among those that `is_asked` selects, the worst first, and the number of worst ones
    /// without a trace.
    pub fn worst(mut self, flows: &Flows, most: usize, is_asked: impl Fn(&Flow) -> bool) -> (Vec<CaptureTrace>, usize) {
        let worst = worst_of(flows, most, is_asked);
        let traces: Vec<CaptureTrace> = worst.iter().filter_map(|flow| self.take(flow)).collect();
        let without = worst.len() - traces.len();
        (traces, without)
    }

    fn take(&mut self, flow: &Flow) -> Option<CaptureTrace> {
        let place = usize::from(self.tracked.get(flow.stream as usize)?.place);
        let traced = self.slots.get_mut(place)?;
        Some(traced.ways[usize::from(shown(flow))].finish("", flow))
    }
}
