//! A capture cut into pieces that may be called independent.

use crate::analyse::Analysis;
use crate::kinds::Kind;
use crate::spans::Span;
use holdup_model::captures::{Clusters, Traffic};
use holdup_stats::Cluster;

/// Fewer connections, or spans of time with something in them, say too little of how much they differ.
pub(crate) const FEWEST: usize = 8;

/// Connections are pieces when they come to so many of one size; with fewer, one or two decide everything.
const FEWEST_EFFECTIVE: f64 = 4.0;

/// What rates are by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// Segments.
    Segments,
    /// Bytes of payload.
    Bytes,
}

/// A capture with its totals.
pub(crate) struct Pieces<'a> {
    pub(crate) analysis: &'a Analysis,
    pub(crate) traffic: Traffic,
    /// Bytes of frames on the wire.
    pub(crate) frame_bytes: u64,
    /// How often each kind was seen, in the order of the catalogue.
    totals: Vec<u64>,
    /// What each connection did, by [`Base`].
    work: Vec<[f64; 2]>,
    /// Of each kind, in the order of the catalogue: the connections that have it, and how often. Most have few kinds.
    events: Vec<Vec<(u32, u32)>>,
}

impl Base {
    pub(crate) fn of(self, traffic: &Traffic) -> u64 {
        match self {
            Base::Segments => traffic.segments,
            Base::Bytes => traffic.payload_bytes,
        }
    }

    /// What a rate is shown by: a million segments, a GB.
    pub(crate) fn unit(self) -> f64 {
        match self {
            Base::Segments => 1e6,
            Base::Bytes => 1e9,
        }
    }
}

impl<'a> Pieces<'a> {
    pub(crate) fn of(analysis: &'a Analysis) -> Self {
        let mut pieces = Pieces {
            analysis,
            traffic: Traffic::default(),
            frame_bytes: 0,
            totals: vec![0; Kind::ALL.len()],
            work: Vec::with_capacity(analysis.flows.len()),
            events: vec![Vec::new(); Kind::ALL.len()],
        };
        for flow in analysis.flows.iter() {
            let traffic = flow.traffic();
            pieces.traffic += traffic;
            pieces.work.push([traffic.segments as f64, traffic.payload_bytes as f64]);
            for direction in &flow.directions {
                pieces.frame_bytes += direction.frame_bytes;
                for (kind, n) in direction.counts.in_any_order() {
                    pieces.totals[kind as usize] += n;
                    pieces.events[kind as usize].push((flow.stream, u32::try_from(n).unwrap_or(u32::MAX)));
                }
            }
        }
        pieces
    }

    /// How often a kind was seen.
    pub(crate) fn count(&self, kind: Kind) -> u64 {
        self.totals[kind as usize]
    }

    /// Seconds from the first frame to the last.
    pub(crate) fn length_s(&self) -> f64 {
        self.analysis.last_ns.saturating_sub(self.analysis.first_ns).max(0) as f64 / 1e9
    }

    /// The marks of a kind and the work, piece by piece.
    pub(crate) fn clusters(&self, by: Clusters, kind: Kind, base: Base) -> Vec<Cluster> {
        match by {
            Clusters::Connections => {
                let of = |work: &[f64; 2]| Cluster { events: 0.0, work: work[base as usize] };
                let mut clusters: Vec<Cluster> = self.work.iter().map(of).collect();
                for (stream, n) in &self.events[kind as usize] {
                    clusters[*stream as usize].events += f64::from(*n);
                }
                clusters
            }
            Clusters::Spans => {
                let of = |span: &Span| Cluster { events: span.get(kind) as f64, work: base.of(&span.traffic()) as f64 };
                self.analysis.spans.iter().map(of).collect()
            }
        }
    }

    /// Whether pieces of this sort are many enough.
    pub(crate) fn has(&self, by: Clusters, base: Base) -> bool {
        let sizes = |all: &mut dyn Iterator<Item = f64>| {
            let (mut n, mut sum, mut squares) = (0, 0.0, 0.0);
            for size in all.filter(|size| *size > 0.0) {
                n += 1;
                sum += size;
                squares += size.powi(2);
            }
            (n, if squares > 0.0 { sum * sum / squares } else { 0.0 })
        };
        match by {
            Clusters::Connections => {
                let (n, effective) = sizes(&mut self.work.iter().map(|work| work[base as usize]));
                n >= FEWEST && effective >= FEWEST_EFFECTIVE
            }
            Clusters::Spans => {
                let (n, _) = sizes(&mut self.analysis.spans.iter().map(|s| base.of(&s.traffic()) as f64));
                n >= FEWEST
            }
        }
    }
}

/// The sorts of pieces that all sides have enough of.
pub(crate) fn sorts(sides: &[&Pieces<'_>], base: Base) -> Vec<Clusters> {
    let all = [Clusters::Connections, Clusters::Spans];
    all.into_iter().filter(|by| sides.iter().all(|side| side.has(*by, base))).collect()
}

/// Why there are none.
pub(crate) fn why_none(sides: &[&Pieces<'_>]) -> String {
    let few = |p: &Pieces<'_>| holdup_model::text::count(p.analysis.flows.len(), "connection");
    let parts: Vec<String> = sides.iter().map(|p| few(p)).collect();
    format!(
        "{} and fewer than {FEWEST} spans of time with traffic are too few pieces to see how rates scatter",
        parts.join(" against ")
    )
}
