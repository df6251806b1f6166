//! What A/A pairs say about the host.

use crate::effect::Effect;
use crate::pieces::BlockPair;
use crate::verdict::MIN_BLOCKS;
use crate::{CONFIDENCE, NoEstimate};
use holdup_model::Estimate;

/// The noise floor of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseFloor {
    /// The smallest effect that this host could show in this run, as a share (0.015 = 1.5 %):
    /// the half-width of the 95 % interval of A/A. When A/A itself differs, the interval's far end,
    /// because an effect of that size came from nothing at all.
    pub floor: f64,
    /// The ratio of A to itself.
    pub ratio: Estimate,
    /// True if A differs from itself: then noise is not random from block to block, or one of the
    /// two had another place in the order (a warning, though 1 in 20 does so by chance).
    pub differs: bool,
}

/// The noise floor from A/A pairs.
///
/// # Errors
/// Where a ratio has no interval, and where all blocks are the same: no noise was seen, which says
/// nothing about how much there is.
pub fn noise_floor(pairs: &[BlockPair]) -> Result<NoiseFloor, NoEstimate> {
    noise_floor_of(&Effect::paired(pairs)?, CONFIDENCE)
}

/// The noise floor from the effect of A against itself, at the confidence at which effects are judged.
pub fn noise_floor_of(effect: &Effect, confidence: f64) -> Result<NoiseFloor, NoEstimate> {
    if effect.is_constant() {
        return Err(NoEstimate::new("all A/A blocks give the same value, so no noise was seen"));
    }
    let ratio = effect.estimate(confidence)?;
    let differs = effect.blocks() >= MIN_BLOCKS && effect.p_difference() <= 1.0 - confidence;
    let half = (ratio.high.ln() - ratio.low.ln()) / 2.0;
    let reach = if differs { half + effect.log_value().abs() } else { half };
    let floor = reach.exp_m1();
    if !floor.is_finite() {
        return Err(NoEstimate::new("the interval is wider than numbers can hold"));
    }
    Ok(NoiseFloor { floor, ratio, differs })
}
