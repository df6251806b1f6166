//! Where the noise comes from: sessions, blocks, or single trials.

use crate::NoEstimate;
use crate::pieces::{BlockPair, log, mean, variance};
use std::collections::BTreeMap;

/// The variance of single results of an arm, split; each as a standard deviation on the log scale, which is a
/// coefficient of variation where it is small (0.02 is 2 %).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Between trials of one arm that ran in the same block, everything shared taken out.
    pub trial: f64,
    /// What the two trials of a block share against other blocks of the session. Pairing takes it out of ratios.
    pub block: f64,
    /// What all trials of a session share; `None` with one session. Pairing takes it out of ratios.
    pub session: Option<f64>,
    /// By how much the *ratio* itself differs from session to session beyond what its blocks explain; `None` with
    /// one session. Only more sessions help against it.
    pub ratio_by_session: Option<f64>,
    /// Blocks that it rests on.
    pub blocks: u32,
    /// Sessions that it rests on.
    pub sessions: u32,
}

/// Splits the variance of pairs by the method of moments (nested analysis of variance): mean squares within pairs,
/// between the blocks of a session, between sessions. A component that comes out below zero is zero.
///
/// # Errors
/// With a value that has no logarithm or fewer than two blocks in every session.
pub fn spread(pairs: &[BlockPair]) -> Result<Spread, NoEstimate> {
    let mut blocks: BTreeMap<(u32, u32), (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for pair in pairs {
        let (a, b) = blocks.entry((pair.session, pair.block)).or_default();
        a.push(log(pair.a)?);
        b.push(log(pair.b)?);
    }
    let mut sessions: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for ((session, _), (a, b)) in &blocks {
        let (a, b) = (mean(a), mean(b));
        sessions.entry(*session).or_default().push((b - a, (a + b) / 2.0));
    }
    let count = blocks.len();
    let degrees = count - sessions.len();
    if degrees == 0 {
        return Err(NoEstimate::new("no session has two blocks, so nothing can be split"));
    }
    let within = |part: fn(&(f64, f64)) -> f64| -> f64 {
        let squares = sessions.values().map(|blocks| {
            let values: Vec<f64> = blocks.iter().map(part).collect();
            variance(&values) * (values.len() - 1) as f64
        });
        squares.sum::<f64>() / degrees as f64
    };
    // A difference holds twice a trial's variance, a mean of two half of it and all of its block's.
    let (difference, level) = (within(|p| p.0), within(|p| p.1));
    let trial = difference / 2.0;
    let between = |part: fn(&(f64, f64)) -> f64, within: f64| -> Option<f64> {
        if sessions.len() < 2 {
            return None;
        }
        let means: Vec<f64> =
            sessions.values().map(|blocks| mean(&blocks.iter().map(part).collect::<Vec<_>>())).collect();
        // The harmonic mean of the sessions' sizes carries blocks' noise into session means.
        let size = sessions.len() as f64 / sessions.values().map(|b| 1.0 / b.len() as f64).sum::<f64>();
        Some((variance(&means) - within / size).max(0.0).sqrt())
    };
    let found = Spread {
        trial: trial.sqrt(),
        block: (level - trial / 2.0).max(0.0).sqrt(),
        session: between(|p| p.1, level),
        ratio_by_session: between(|p| p.0, difference),
        blocks: crate::pieces::count(count),
        sessions: crate::pieces::count(sessions.len()),
    };
    let numbers = [Some(found.trial), Some(found.block), found.session, found.ratio_by_session];
    if numbers.iter().flatten().all(|n| n.is_finite()) {
        Ok(found)
    } else {
        Err(NoEstimate::new("the values are too far apart for arithmetic"))
    }
}
