//! A capture cut into clusters that are approximately independent.

use crate::analyse::Analysis;
use crate::kinds::Kind;
use crate::spans::Span;
use holdup_model::captures::{Clusters, Traffic};
use holdup_stats::Cluster;

/// The smallest number of connections, or of spans with traffic, for an error estimate.
pub(crate) const FEWEST: usize = 8;

/// The smallest effective number of connections; with fewer, one or two dominate.
const FEWEST_EFFECTIVE: f64 = 4.0;

/// The denominator of rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    Segments,
    Bytes,
}

pub(crate) struct Pieces<'a> {
    pub(crate) analysis: &'a Analysis,
    pub(crate) traffic: Traffic,
    pub(crate) frame_bytes: u64,
    /// By kind.
    totals: Vec<u64>,
    /// Of each connection, by [`Base`].
    work: Vec<[f64; 2]>,
    /// By kind: connections with their counts. Most have few kinds.
    events: Vec<Vec<(u32, u32)>>,
}

impl Base {
    pub(crate) fn of(self, traffic: &Traffic) -> u64 {
        match self {
            Base::Segments => traffic.segments,
            Base::Bytes => traffic.payload_bytes,
        }
    }

    /// Per million segments, per GB.
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

    pub(crate) fn count(&self, kind: Kind) -> u64 {
        self.totals[kind as usize]
    }

    pub(crate) fn length_s(&self) -> f64 {
        self.analysis.last_ns.saturating_sub(self.analysis.first_ns).max(0) as f64 / 1e9
    }

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

    /// True if there are enough clusters of this type.
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

/// The cluster types of which all sides have enough.
pub(crate) fn cluster_types(sides: &[&Pieces<'_>], base: Base) -> Vec<Clusters> {
    let all = [Clusters::Connections, Clusters::Spans];
    all.into_iter().filter(|by| sides.iter().all(|side| side.has(*by, base))).collect()
}

pub(crate) fn why_none(sides: &[&Pieces<'_>]) -> String {
    let few = |p: &Pieces<'_>| holdup_model::text::count(p.analysis.flows.len(), "connection");
    let parts: Vec<String> = sides.iter().map(|p| few(p)).collect();
    format!(
        "{} and fewer than {FEWEST} spans of time with traffic are too few to estimate the variance",
        parts.join(" against ")
    )
}
