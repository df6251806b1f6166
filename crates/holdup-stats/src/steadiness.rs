//! Whether a ratio held still while it was measured.

use crate::drift::{correlation, lag_one, ranks};
use crate::pieces::{BlockPair, log, mean};
use crate::students_t;
use std::collections::BTreeMap;

/// A ratio is called unsteady below this p: each of the two tests then costs 1 steady run in 100 its verdict.
pub const UNSTEADY_P: f64 = 0.01;

/// Fewer blocks than this cannot show that a ratio moved.
const MIN_PIECES: usize = 8;

/// What moved in a ratio over the order of its blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unsteady {
    /// The ratio itself rose or fell.
    Drifts {
        /// Rank correlation (Spearman) of the ratio with its place in the order, −1 to 1.
        rank_correlation: f64,
        /// Its p.
        p: f64,
    },
    /// Each block's ratio resembles the one before, so the effective number of blocks is smaller.
    Spells {
        /// Correlation of each block's log ratio with the one before.
        autocorrelation: f64,
        /// Its p, one-sided: only likeness makes an interval too narrow.
        p: f64,
    },
}

impl Unsteady {
    /// Why no verdict can rest on it, in a few words.
    pub fn reason(&self) -> String {
        match self {
            Unsteady::Drifts { rank_correlation, p } => format!(
                "the ratio itself {} while the run went on (rank correlation {rank_correlation:.2}, p {p:.4}), so it \
                 has no one value",
                if *rank_correlation > 0.0 { "rose" } else { "fell" }
            ),
            Unsteady::Spells { autocorrelation, p } => format!(
                "the ratio of a block resembles that of the block before (autocorrelation {autocorrelation:.2}, p \
                 {p:.4}), so the blocks are not independent"
            ),
        }
    }
}

/// Looks at the log ratios of the blocks in the order of their numbers; `None` when they held still, when there are
/// fewer than 8 blocks, or when a value has no logarithm.
///
/// Noise that moves both arms alike is not seen here: pairing takes it out. What is seen is a ratio that changes, as
/// when one arm warms up over the run, or when a neighbour presses on one arm for several blocks. The mean of each
/// session is taken out first, because sessions may differ.
pub fn unsteady(pairs: &[BlockPair]) -> Option<Unsteady> {
    let mut blocks: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
    for pair in pairs {
        let ratio = log(pair.b).ok()? - log(pair.a).ok()?;
        blocks.entry((pair.session, pair.block)).or_default().push(ratio);
    }
    let mut sessions: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for ((session, _), values) in &blocks {
        sessions.entry(*session).or_default().push(mean(values));
    }
    let mut residuals = Vec::with_capacity(blocks.len());
    for ratios in sessions.values() {
        let centre = mean(ratios);
        residuals.extend(ratios.iter().map(|r| r - centre));
    }
    let n = residuals.len();
    let scale = residuals.iter().fold(0.0_f64, |m, r| m.max(r.abs()));
    if n < MIN_PIECES + sessions.len() - 1 || !(scale.is_finite() && scale > 1e-12) {
        return None;
    }
    let places: Vec<f64> = (0..n).map(|i| i as f64).collect();
    let rho = correlation(&ranks(&residuals), &places);
    let df = (n - sessions.len() - 1) as f64;
    let p = students_t::two_sided_p(rho * (df / (1.0 - rho * rho).max(f64::EPSILON)).sqrt(), df)?;
    if p < UNSTEADY_P {
        return Some(Unsteady::Drifts { rank_correlation: rho, p });
    }
    let (autocorrelation, two_sided) = lag_one(&residuals);
    let p = two_sided / 2.0;
    (autocorrelation > 0.0 && p < UNSTEADY_P).then_some(Unsteady::Spells { autocorrelation, p })
}
