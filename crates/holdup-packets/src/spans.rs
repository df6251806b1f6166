//! Spans of time of equal length, for a capture whose end is not known yet.
//!
//! Losses come in bursts across connections, and only the variation of a rate between spans shows their contribution to its
//! error. There are [`MOST`] / 2 to [`MOST`] spans: if there are more, pairs are merged into spans of twice the length.

use crate::kinds::Kind;
use crate::spread::{Coarse, Fine, Spread};
use holdup_model::captures::Traffic;
use holdup_model::histogram::Histogram;

/// The largest number of spans.
pub const MOST: usize = 32;

/// The initial length: 2^20 ns, about a millisecond.
const FIRST_SHIFT: u32 = 20;

/// The counters of one span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Segments.
    pub segments: u64,
    /// Those with payload.
    pub data_segments: u64,
    /// Payload bytes.
    pub payload_bytes: u64,
    counts: [u64; Kind::ALL.len()],
    /// Payload bytes of segments with payload.
    pub payload: Fine,
    /// Time between data segments, ns.
    pub inter_arrival: Coarse,
    /// `tcp.analysis.ack_rtt`, ns.
    pub ack_rtt: Coarse,
}

impl Default for Span {
    fn default() -> Self {
        Span {
            segments: 0,
            data_segments: 0,
            payload_bytes: 0,
            counts: [0; Kind::ALL.len()],
            payload: Fine::default(),
            inter_arrival: Coarse::default(),
            ack_rtt: Coarse::default(),
        }
    }
}

impl Span {
    /// The count of a kind.
    pub fn get(&self, kind: Kind) -> u64 {
        self.counts[kind as usize]
    }

    /// Its traffic.
    pub fn traffic(&self) -> Traffic {
        Traffic { segments: self.segments, data_segments: self.data_segments, payload_bytes: self.payload_bytes }
    }

    /// Counts a segment with its payload.
    #[inline(always)]
    pub fn segment(&mut self, payload_bytes: u32) {
        self.segments += 1;
        if payload_bytes > 0 {
            self.data_segments += 1;
            self.payload_bytes += u64::from(payload_bytes);
            self.payload.record(u64::from(payload_bytes));
        }
    }

    /// Counts a mark.
    #[inline]
    pub fn mark(&mut self, kind: Kind) {
        self.counts[kind as usize] += 1;
    }

    fn add(&mut self, other: &Span) {
        self.segments += other.segments;
        self.data_segments += other.data_segments;
        self.payload_bytes += other.payload_bytes;
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.payload.add(&other.payload);
        self.inter_arrival.add(&other.inter_arrival);
        self.ack_rtt.add(&other.ack_rtt);
    }
}

/// The spans of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spans {
    first_ns: Option<i64>,
    shift: u32,
    spans: Vec<Span>,
}

impl Default for Spans {
    fn default() -> Self {
        Spans { first_ns: None, shift: FIRST_SHIFT, spans: Vec::new() }
    }
}

impl Spans {
    /// The span of a time (ns since the epoch). The first span begins with the first call; earlier times, which occur when
    /// clocks or queues disagree, belong to it too.
    #[inline(always)]
    pub fn at(&mut self, at_ns: i64) -> &mut Span {
        let since = at_ns.wrapping_sub(self.first_ns.unwrap_or(0));
        let place = (since as u64 >> self.shift) as usize;
        if since < 0 || place >= self.spans.len() {
            let place = self.place(at_ns);
            return &mut self.spans[place];
        }
        &mut self.spans[place]
    }

    pub(crate) fn begin_at(&mut self, at_ns: i64) {
        self.first_ns.get_or_insert(at_ns);
    }

    /// Adds spans that have the same first time or are empty.
    pub(crate) fn add(&mut self, mut others: Spans) {
        if self.spans.is_empty() {
            *self = others;
            return;
        }
        while self.shift < others.shift {
            self.fold();
        }
        while others.shift < self.shift {
            others.fold();
        }
        if self.spans.len() < others.spans.len() {
            std::mem::swap(self, &mut others);
        }
        self.spans.iter_mut().zip(&others.spans).for_each(|(mine, theirs)| mine.add(theirs));
    }

    #[cold]
    #[inline(never)]
    fn place(&mut self, at_ns: i64) -> usize {
        let first = *self.first_ns.get_or_insert(at_ns);
        let since = at_ns.saturating_sub(first).max(0) as u64;
        while (since >> self.shift) as usize >= MOST {
            self.fold();
        }
        let place = (since >> self.shift) as usize;
        if place >= self.spans.len() {
            self.spans.resize_with(place + 1, Span::default);
        }
        place
    }

    /// Merges pairs.
    fn fold(&mut self) {
        self.shift += 1;
        let half = self.spans.len().div_ceil(2);
        for i in 0..half {
            let mut one = std::mem::take(&mut self.spans[2 * i]);
            if let Some(other) = self.spans.get(2 * i + 1) {
                one.add(other);
            }
            self.spans[i] = one;
        }
        self.spans.truncate(half);
    }

    /// The length of a span, ns; the last one may be incomplete.
    pub fn length_ns(&self) -> u64 {
        1 << self.shift
    }

    /// The beginning of the first span, ns since the epoch.
    pub fn first_ns(&self) -> Option<i64> {
        self.first_ns
    }

    /// A histogram over all spans.
    pub fn sum<const BITS: u32>(&self, of: impl Fn(&Span) -> &Spread<BITS>) -> Histogram {
        let mut all = Spread::default();
        self.spans.iter().for_each(|span| all.add(of(span)));
        all.histogram()
    }

    /// All spans in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Span> {
        self.spans.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_grow_with_the_capture_and_lose_nothing() {
        let mut spans = Spans::default();
        let hour = 3_600_000_000_000_i64;
        for i in 0..100_000_i64 {
            let span = spans.at(1_000 + i * hour / 100_000);
            span.segment(if i % 3 == 0 { 0 } else { 1448 });
            if i % 10 == 0 {
                span.mark(Kind::Retransmission);
            }
        }
        spans.at(0).segment(0);
        assert!((MOST / 2..=MOST).contains(&spans.iter().len()), "{}", spans.iter().len());
        assert_eq!(spans.iter().map(|s| s.segments).sum::<u64>(), 100_001);
        assert_eq!(spans.iter().map(|s| s.get(Kind::Retransmission)).sum::<u64>(), 10_000);
        assert_eq!(spans.iter().map(|s| s.payload.count()).sum::<u64>(), 66_666);
        let each = spans.iter().next().expect("a span").segments as f64;
        let expected = 100_000.0 * spans.length_ns() as f64 / hour as f64;
        assert!((each / expected - 1.0).abs() < 0.01, "{each} {expected}");
    }

    #[test]
    fn extreme_times_belong_to_some_span() {
        let mut spans = Spans::default();
        for at in [0, i64::MAX, i64::MIN, -1, 1, i64::MAX - 1] {
            spans.at(at).segment(1);
        }
        assert!(spans.iter().len() <= MOST);
        assert_eq!(spans.iter().map(|s| s.segments).sum::<u64>(), 6);
        let mut spans = Spans::default();
        spans.at(i64::MIN).segment(1);
        spans.at(i64::MAX).segment(1);
        assert!(spans.iter().len() <= MOST);
    }
}
