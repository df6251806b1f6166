//! From trials to independent pieces: trial → block → session.

use crate::NoEstimate;
use std::collections::BTreeMap;

/// A and B in one block. Several pairs of one block (repeated trials) are averaged first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockPair {
    /// The session.
    pub session: u32,
    /// The block.
    pub block: u32,
    /// The value of A.
    pub a: f64,
    /// The value of B.
    pub b: f64,
}

/// One value of one arm in one block. Several values of one block are averaged first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockValue {
    /// The session.
    pub session: u32,
    /// The block.
    pub block: u32,
    /// The value.
    pub value: f64,
}

/// Why a value has no logarithm; `None` when it has one.
pub(crate) fn why_no_log(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("a value is not a number")
    } else if value.is_infinite() {
        Some("a value is infinite")
    } else if value == 0.0 {
        Some("a value is zero, and zero has no ratio")
    } else if value < 0.0 {
        Some("a value is negative, and a ratio needs values above zero")
    } else {
        None
    }
}

pub(crate) fn log(value: f64) -> Result<f64, NoEstimate> {
    match why_no_log(value) {
        Some(why) => Err(NoEstimate::new(why)),
        None => Ok(value.ln()),
    }
}

/// What a t interval rests on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pieces {
    /// One number for each independent piece.
    pub(crate) values: Vec<f64>,
    /// Blocks behind them.
    pub(crate) blocks: u32,
    /// Sessions behind them.
    pub(crate) sessions: u32,
}

impl Pieces {
    /// Averages trials into blocks, and, with two or more sessions, blocks into sessions.
    ///
    /// With several sessions the session is the independent piece: what a session shifts, it
    /// shifts in all of its blocks, so blocks of one session are not independent.
    pub(crate) fn of(logs: impl Iterator<Item = (u32, u32, f64)>) -> Self {
        let mut blocks: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
        for (session, block, value) in logs {
            blocks.entry((session, block)).or_default().push(value);
        }
        let mut sessions: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for ((session, _), values) in &blocks {
            sessions.entry(*session).or_default().push(mean(values));
        }
        let values = match sessions.len() {
            0 | 1 => sessions.into_values().flatten().collect(),
            _ => sessions.values().map(|blocks| mean(blocks)).collect(),
        };
        let session_count = blocks.keys().map(|(s, _)| s).collect::<std::collections::BTreeSet<_>>().len();
        Pieces { values, blocks: count(blocks.len()), sessions: count(session_count) }
    }

    /// How many independent pieces there are.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// How many blocks stand behind one piece, at least 1.
    pub(crate) fn blocks_per_piece(&self) -> u32 {
        if self.sessions >= 2 { self.blocks.div_ceil(self.sessions).max(1) } else { 1 }
    }

    /// True if all pieces are the same up to rounding.
    pub(crate) fn is_constant(&self) -> bool {
        let low = self.values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        high - low <= 1e-12 * (1.0 + low.abs().max(high.abs()))
    }
}

/// Counts fit: a bundle holds fewer than 2^32 trials.
pub(crate) fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The median; of an even number the mean of the two in the middle. `None` of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (n > 0).then(|| (values[n / 2] + values[(n - 1) / 2]) / 2.0)
}

/// The sample variance (n − 1); zero for fewer than two values.
pub(crate) fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let centre = mean(values);
    values.iter().map(|v| (v - centre).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}
