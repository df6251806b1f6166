//! Quantiles of sizes, gaps and round trips of two captures.
//!
//! Consecutive values are correlated, so a sampling error would be wrong: the error of a quantile is taken from its variation
//! between spans.

use super::marks::{nothing, over_spans};
use super::pieces::{FEWEST, Pieces};
use crate::analyse::Analysis;
use crate::spans::Span;
use crate::spread::Spread;
use holdup_model::Histogram;
use holdup_model::captures::{Distribution, QuantileComparison, RateRatio};
use holdup_stats::{BlockValue, Effect, MIN_SAMPLES_BEYOND, quantiles::is_thin};

/// A distribution.
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) of: fn(&Analysis) -> &Histogram,
    /// A quantile within a span, if spans have the distribution.
    in_span: Option<fn(&Span, f64) -> Option<f64>>,
}

pub(crate) const ALL: [Named; 5] = [
    Named { name: "initial_rtt_ns", title: "round trip of the handshake", of: |a| &a.initial_rtt_ns, in_span: None },
    Named {
        name: "ack_rtt_ns",
        title: "segment to ACK",
        of: |a| &a.ack_rtt_ns,
        in_span: Some(|s, q| among_enough(&s.ack_rtt, q)),
    },
    Named { name: "rto_ns", title: "segment to retransmission", of: |a| &a.rto_ns, in_span: None },
    Named {
        name: "payload_bytes",
        title: "payload",
        of: |a| &a.payload_bytes,
        in_span: Some(|s, q| among_enough(&s.payload, q)),
    },
    Named {
        name: "inter_arrival_ns",
        title: "gap between data segments",
        of: |a| &a.inter_arrival_ns,
        in_span: Some(|s, q| among_enough(&s.inter_arrival, q)),
    },
];

pub(crate) const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

pub(crate) fn distribution(named: &Named, analysis: &Analysis) -> Option<Distribution> {
    let histogram = (named.of)(analysis);
    let value = |q: f64| Some((q, histogram.quantile_ns(q)? as f64, is_thin(histogram, q)));
    (histogram.count() > 0).then(|| Distribution {
        name: named.name.to_owned(),
        title: named.title.to_owned(),
        count: histogram.count(),
        quantiles: QUANTILES.into_iter().filter_map(value).collect(),
    })
}

pub(super) fn rows(a: &Pieces<'_>, b: &Pieces<'_>) -> Vec<QuantileComparison> {
    let mut rows = Vec::new();
    for named in &ALL {
        let (of_a, of_b) = ((named.of)(a.analysis), (named.of)(b.analysis));
        for quantile in QUANTILES {
            let (Some(in_a), Some(in_b)) = (of_a.quantile_ns(quantile), of_b.quantile_ns(quantile)) else { continue };
            rows.push(QuantileComparison {
                name: named.name.to_owned(),
                title: named.title.to_owned(),
                quantile,
                baseline: in_a as f64,
                other: in_b as f64,
                thin: is_thin(of_a, quantile) || is_thin(of_b, quantile),
                shift: shift([a, b], named, quantile),
            });
        }
    }
    rows
}

/// A quantile with enough values on both sides.
fn among_enough<const BITS: u32>(values: &Spread<BITS>, quantile: f64) -> Option<f64> {
    let needed = MIN_SAMPLES_BEYOND / (1.0 - quantile).min(quantile) - 1e-6;
    if values.count() as f64 >= needed { values.quantile(quantile) } else { None }
}

fn shift(sides: [&Pieces<'_>; 2], named: &Named, quantile: f64) -> RateRatio {
    let Some(in_span) = named.in_span else { return nothing("spans do not have it".to_owned()) };
    let values = |p: &Pieces<'_>| -> Vec<BlockValue> {
        let of = |(i, span): (usize, &Span)| {
            let value = in_span(span, quantile)?.max(1.0);
            Some(BlockValue { session: 0, block: i as u32, value })
        };
        p.analysis.spans.iter().enumerate().filter_map(of).collect()
    };
    let [a, b] = sides.map(values);
    if a.len().min(b.len()) < FEWEST {
        return nothing(format!("fewer than {FEWEST} spans of time with enough values on a side"));
    }
    over_spans(Effect::unpaired(&a, &b))
}
