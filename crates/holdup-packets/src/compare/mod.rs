//! Two captures against each other: what got worse for each segment, and how sure that is.
//!
//! A mark's rate is its count by the segments, or by the bytes of payload, of all connections. How sure a ratio of two rates
//! is depends on how the marks fall: they come in bunches, in some connections more than in others, and in bursts that hit
//! many connections at once. So the error is taken from pieces that may be called independent: from the connections, where
//! there are enough of them, and from spans of time; the wider of the two intervals is shown, and which one it was.

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
pub(crate) use pieces::{Base, Pieces, sorts};

/// How captures are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The margin of the verdicts, as a share: 0.02 is "within 2 %".
    pub margin: f64,
}

impl Default for Options {
    /// 2 %, as plans have it.
    fn default() -> Self {
        Options { margin: 0.02 }
    }
}

/// Compares captures, each against the first. Holm's correction is over the marks of all of them.
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
