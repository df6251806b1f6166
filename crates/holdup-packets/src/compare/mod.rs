//! Compares captures: what got worse per segment, and how certain that is.
//!
//! A mark's rate is its count by the segments, or payload bytes, of all connections. Marks cluster: some connections have more,
//! and bursts hit many connections together. The error is therefore taken from clusters: connections, if there are enough, and
//! spans of time. The wider interval is shown, with its cluster type.

mod answer;
mod counts;
mod marks;
mod pieces;
pub(crate) mod quantiles;
mod totals;

use crate::analyse::Analysis;
use holdup_model::captures::CaptureComparison;

pub use counts::compare_counts;
pub(crate) use marks::{mark, rate};
pub(crate) use pieces::{Base, Pieces, cluster_types};

/// Options of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The equivalence margin: 0.02 is "within 2 %".
    pub margin: f64,
}

impl Default for Options {
    /// As in plans.
    fn default() -> Self {
        Options { margin: 0.02 }
    }
}

/// Compares captures with the first, with Holm's correction over all rows.
pub fn compare(baseline: (&str, &Analysis), others: &[(&str, &Analysis)], options: &Options) -> Vec<CaptureComparison> {
    let a = Pieces::of(baseline.1);
    let b: Vec<Pieces<'_>> = others.iter().map(|(_, analysis)| Pieces::of(analysis)).collect();
    let mut rows: Vec<Vec<marks::Row>> = b.iter().map(|b| marks::rows(&a, b)).collect();
    marks::judge(rows.iter_mut().flatten(), options.margin);
    let judged = others.iter().zip(&b).zip(rows);
    judged
        .map(|(((name, _), b), rows)| {
            let marks = rows.into_iter().map(marks::Row::into_comparison).collect();
            let mut one = CaptureComparison {
                baseline: baseline.0.to_owned(),
                other: (*name).to_owned(),
                answer: String::new(),
                verdict: holdup_model::outcome::FindingVerdict::Undecided,
                details: Vec::new(),
                margin: options.margin,
                totals: totals::rows(&a, b),
                marks,
                quantiles: quantiles::rows(&a, b),
                notes: Vec::new(),
            };
            answer::write(&mut one, &a, b);
            one
        })
        .collect()
}
