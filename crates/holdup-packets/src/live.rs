//! Connections over time while they are judged: of packets that nobody keeps there is no second way through.
//!
//! Which connections will be worst is not known while they run. So a fixed number of them is traced at a time, whatever comes:
//!
//! - A new connection is traced while there is room. Without room it takes the place of a traced one without trouble, if one of
//!   the next few has none.
//! - A connection that is not traced and meets more trouble than the least troubled traced one takes that one's place, and its
//!   trace begins there.
//!
//! What that gives up: with more connections at once than places, the beginning of a trace, and where trouble moves on, the whole
//! trace of one that had little. A connection that is not traced costs 8 bytes.

use crate::analyse::Flows;
use crate::flows::Flow;
use crate::kinds::{Kind, MarkClass};
use crate::segment::Segment;
use crate::trace::{Tracer, shown, worst_of};
use crate::wireshark::{Kinds, Marks};
use holdup_model::captures::CaptureTrace;

/// Connections that are traced at a time.
pub const PLACES: usize = 128;

/// The most points that are kept of one direction of each.
pub const MOST_POINTS: usize = 1_000;

/// Places that a new connection looks at for one without trouble.
const LOOKS: usize = 8;

/// No place.
const NONE: u16 = u16::MAX;

/// What is known of a connection beside its trace.
#[derive(Debug, Clone, Copy)]
struct Tracked {
    /// Marks of trouble so far.
    trouble: u32,
    place: u16,
}

/// A connection that is traced, both ways, because which way matters is not known either.
struct Traced {
    stream: u32,
    ways: [Tracer; 2],
}

/// Traces of one capture while it is judged.
pub struct Live {
    /// The kinds that are trouble.
    troubling: Kinds,
    tracked: Vec<Tracked>,
    places: Vec<Traced>,
    /// Where the next new connection looks for a place.
    hand: usize,
}

impl Default for Live {
    fn default() -> Self {
        let mut troubling = Kinds::NONE;
        Kind::ALL.iter().filter(|kind| kind.class() == MarkClass::Trouble).for_each(|kind| troubling.add(*kind));
        Live { troubling, tracked: Vec::new(), places: Vec::new(), hand: 0 }
    }
}

impl Live {
    /// Sees a segment that was judged. The numbers of connections ascend from 0 as they begin.
    pub fn see(&mut self, segment: &Segment, marks: &Marks) {
        let stream = marks.stream as usize;
        if stream >= self.tracked.len() {
            self.tracked.resize(stream, Tracked { trouble: 0, place: NONE });
            let place = self.place_for_new();
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
                && let Some(place) = self.place_for(self.tracked[stream].trouble)
            {
                self.begin(place, marks.stream, segment.at_ns);
            }
        }
        if let Some(traced) = self.places.get_mut(usize::from(self.tracked[stream].place)) {
            let is_again = marks.kinds.has(Kind::Retransmission);
            traced.ways.iter_mut().for_each(|way| way.see(segment, marks.direction, is_again));
        }
    }

    fn trouble_at(&self, place: usize) -> u32 {
        self.tracked[self.places[place].stream as usize].trouble
    }

    fn place_for_new(&mut self) -> Option<usize> {
        if self.places.len() < PLACES {
            return Some(self.places.len());
        }
        for _ in 0..LOOKS {
            self.hand = (self.hand + 1) % PLACES;
            if self.trouble_at(self.hand) == 0 {
                return Some(self.hand);
            }
        }
        None
    }

    /// The place of the least troubled connection that has less than this.
    fn place_for(&self, trouble: u32) -> Option<usize> {
        let least = (0..self.places.len()).min_by_key(|place| self.trouble_at(*place))?;
        (self.trouble_at(least) < trouble).then_some(least)
    }

    fn begin(&mut self, place: usize, stream: u32, at_ns: i64) {
        let traced = Traced { stream, ways: [0, 1].map(|way| Tracer::new(way, at_ns, MOST_POINTS)) };
        match self.places.get_mut(place) {
            Some(before) => {
                self.tracked[before.stream as usize].place = NONE;
                *before = traced;
            }
            None => self.places.push(traced),
        }
        self.tracked[stream as usize].place = place as u16;
    }

    /// The memory that traces take, bytes, at the most.
    pub fn memory_bytes(&self) -> u64 {
        let points: usize = self.places.iter().flat_map(|p| &p.ways).map(Tracer::memory_bytes).sum();
        (points + self.tracked.capacity() * size_of::<Tracked>()) as u64
    }

    /// The traces of the worst of those connections that are asked for, the worst first, and how many of the worst have none.
    pub fn worst(mut self, flows: &Flows, most: usize, is_asked: impl Fn(&Flow) -> bool) -> (Vec<CaptureTrace>, usize) {
        let worst = worst_of(flows, most, is_asked);
        let traces: Vec<CaptureTrace> = worst.iter().filter_map(|flow| self.take(flow)).collect();
        let without = worst.len() - traces.len();
        (traces, without)
    }

    fn take(&mut self, flow: &Flow) -> Option<CaptureTrace> {
        let place = usize::from(self.tracked.get(flow.stream as usize)?.place);
        let traced = self.places.get_mut(place)?;
        Some(traced.ways[usize::from(shown(flow))].finish("", flow))
    }
}
