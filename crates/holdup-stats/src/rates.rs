//! Ratios of counts per unit of work: faults per transaction, retransmissions per million segments.

use crate::NoEstimate;
use crate::effect::Effect;
use crate::pieces::{count, mean};
use std::collections::BTreeMap;

/// What A and B counted in one block, and over how much work. Trials of one block are added up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatePair {
    /// The session.
    pub session: u32,
    /// The block.
    pub block: u32,
    /// Events of A; zero is a count.
    pub a_events: f64,
    /// Work of A, above zero: transactions, segments, seconds.
    pub a_work: f64,
    /// Events of B.
    pub b_events: f64,
    /// Work of B.
    pub b_work: f64,
}

/// Totals and how each block pulls at them.
struct Totals {
    /// Log of the ratio of the two rates.
    centre: f64,
    /// What each block adds to the log ratio, with its session.
    pulls: Vec<(u32, f64)>,
}

/// The ratio of B's rate to A's: totals by totals, so that a block without a single event counts and a busy block
/// counts more. The error is that of a ratio estimator (Cochran, Sampling Techniques, 1977, chapter 6): each block's
/// pull at the log of the ratio, with Student's t over blocks or, with two or more sessions, over sessions. It holds
/// for counts that come in clusters, which a Poisson interval does not.
///
/// # Errors
/// With fewer than two blocks (or sessions), a count below zero or not finite, work that is not above zero, or a side
/// without any event: its rate has no logarithm.
pub fn rate_effect(pairs: &[RatePair]) -> Result<Effect, NoEstimate> {
    let totals = totals(pairs)?;
    let blocks = totals.pulls.len();
    let mut sessions: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (session, pull) in &totals.pulls {
        sessions.entry(*session).or_default().push(*pull);
    }
    let (pulls, pieces): (Vec<f64>, &str) = if sessions.len() >= 2 {
        // Sums, scaled so that their mean stays the mean of what blocks add.
        let scale = sessions.len() as f64 / blocks as f64;
        (sessions.values().map(|p| p.iter().sum::<f64>() * scale).collect(), "sessions")
    } else {
        (totals.pulls.iter().map(|(_, pull)| *pull).collect(), "blocks")
    };
    if pulls.len() < 2 {
        return Err(NoEstimate::new(match blocks {
            0 => "no block",
            _ => "one block only, and an interval needs at least two",
        }));
    }
    let method = format!("ratio of totals, t on what each of {} {pieces} pulls", pulls.len());
    Effect::from_pulls(totals.centre, &pulls, count(blocks), method)
}

fn totals(pairs: &[RatePair]) -> Result<Totals, NoEstimate> {
    let mut blocks: BTreeMap<(u32, u32), [f64; 4]> = BTreeMap::new();
    for p in pairs {
        let numbers = [p.a_events, p.a_work, p.b_events, p.b_work];
        if numbers.iter().any(|n| !n.is_finite()) {
            return Err(NoEstimate::new("a count is not a finite number"));
        }
        if p.a_events < 0.0 || p.b_events < 0.0 {
            return Err(NoEstimate::new("a count is negative"));
        }
        if p.a_work <= 0.0 || p.b_work <= 0.0 {
            return Err(NoEstimate::new("a block has no work to count by"));
        }
        let sum = blocks.entry((p.session, p.block)).or_default();
        for (sum, n) in sum.iter_mut().zip(numbers) {
            *sum += n;
        }
    }
    if blocks.is_empty() {
        return Err(NoEstimate::new("no block"));
    }
    let column = |i: usize| -> Vec<f64> { blocks.values().map(|b| b[i]).collect() };
    let means = [0, 1, 2, 3].map(|i| mean(&column(i)));
    for (side, events) in [("A", means[0]), ("B", means[2])] {
        if events <= 0.0 {
            return Err(NoEstimate::new(format!("{side} has no event at all, and a rate of zero has no ratio")));
        }
    }
    let centre = (means[2] / means[3]).ln() - (means[0] / means[1]).ln();
    let pull = |b: &[f64; 4]| b[2] / means[2] - b[3] / means[3] - b[0] / means[0] + b[1] / means[1];
    let pulls = blocks.iter().map(|((session, _), b)| (*session, pull(b))).collect();
    Ok(Totals { centre, pulls })
}
