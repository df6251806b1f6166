//! The hierarchical bootstrap of a ratio, bias-corrected and accelerated.
//!
//! Efron, "Better bootstrap confidence intervals", JASA 82 (1987). It asks less of the shape of the noise
//! than a t interval and needs more blocks; `docs/calibration.md` says from where on it keeps what it promises.

use crate::NoEstimate;
use crate::pieces::{BlockPair, count, log, mean};
use holdup_model::Estimate;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use statrs::distribution::{ContinuousCDF, Normal};
use std::collections::BTreeMap;

/// Fewer independent pieces than this have no tail to resample.
const MIN_PIECES: usize = 5;

/// Fewer resamples than this cannot place an end of a 95 % interval.
const MIN_RESAMPLES: u32 = 200;

/// The ratio of B to A, paired by block, with the BCa interval from resampling sessions, and blocks within sessions.
/// The seed decides every draw.
///
/// # Errors
/// With a value that has no logarithm, fewer than 5 independent pieces (sessions where there are several, otherwise
/// blocks), all pieces the same, fewer than 200 resamples, or a confidence that is not between 0 and 1.
pub fn ratio_bootstrap(
    pairs: &[BlockPair],
    confidence: f64,
    resamples: u32,
    seed: u64,
) -> Result<Estimate, NoEstimate> {
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(NoEstimate::new("the confidence must lie between 0 and 1"));
    }
    if resamples < MIN_RESAMPLES {
        return Err(NoEstimate::new(format!("{resamples} resamples are too few, {MIN_RESAMPLES} are the least")));
    }
    let sessions = sessions(pairs)?;
    let blocks: usize = sessions.iter().map(Vec::len).sum();
    let pieces = if sessions.len() > 1 { sessions.len() } else { blocks };
    if pieces < MIN_PIECES {
        return Err(NoEstimate::new(format!("{pieces} pieces are too few to resample, {MIN_PIECES} are the least")));
    }
    let centre = grand_mean(&sessions);
    let mut draws = resample(&sessions, resamples, seed);
    draws.sort_by(f64::total_cmp);
    let (first, last) = (draws[0], draws[draws.len() - 1]);
    let has_spread = first.is_finite() && last.is_finite() && last - first > 1e-12 * (1.0 + centre.abs());
    if !has_spread {
        return Err(NoEstimate::new("all blocks give the same value: there is no spread to resample"));
    }
    let normal = Normal::standard();
    let below = draws
        .iter()
        .map(|d| {
            if *d < centre {
                1.0
            } else if *d > centre {
                0.0
            } else {
                0.5
            }
        })
        .sum::<f64>();
    let share = (below / draws.len() as f64).clamp(0.5 / draws.len() as f64, 1.0 - 0.5 / draws.len() as f64);
    let bias = normal.inverse_cdf(share);
    let acceleration = acceleration(&sessions);
    let end = |tail: f64| {
        let z = bias + normal.inverse_cdf(tail);
        let adjusted = normal.cdf(bias + z / (1.0 - acceleration * z).max(0.1));
        let place = adjusted * (draws.len() as f64 - 1.0);
        let (low, part) = (place.floor(), place.fract());
        let at = |i: f64| draws[(i as usize).min(draws.len() - 1)];
        at(low) + part * (at(low + 1.0) - at(low))
    };
    let tail = (1.0 - confidence) / 2.0;
    let (low, high) = (end(tail).exp(), end(1.0 - tail).exp());
    if !(low > 0.0 && high.is_finite()) {
        return Err(NoEstimate::new("the interval is wider than numbers can hold"));
    }
    let method = format!("hierarchical BCa bootstrap, {resamples} resamples of {pieces} pieces");
    Ok(Estimate { value: centre.exp(), low, high, confidence, n: count(blocks), method })
}

/// The log ratio of each block by session.
fn sessions(pairs: &[BlockPair]) -> Result<Vec<Vec<f64>>, NoEstimate> {
    let mut blocks: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
    for pair in pairs {
        blocks.entry((pair.session, pair.block)).or_default().push(log(pair.b)? - log(pair.a)?);
    }
    let mut sessions: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for ((session, _), values) in &blocks {
        sessions.entry(*session).or_default().push(mean(values));
    }
    Ok(sessions.into_values().collect())
}

/// The mean of the sessions' means.
fn grand_mean(sessions: &[Vec<f64>]) -> f64 {
    sessions.iter().map(|blocks| mean(blocks)).sum::<f64>() / sessions.len() as f64
}

fn resample(sessions: &[Vec<f64>], resamples: u32, seed: u64) -> Vec<f64> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    // The high half of a product of 32-bit numbers is uniform to within 2^-32 by the number of blocks.
    let mut index = |n: usize| ((u64::from(random.next_u32()) * n as u64) >> 32) as usize;
    (0..resamples)
        .map(|_| {
            let mut sum = 0.0;
            for _ in 0..sessions.len() {
                let session = if sessions.len() > 1 { &sessions[index(sessions.len())] } else { &sessions[0] };
                let blocks: f64 = (0..session.len()).map(|_| session[index(session.len())]).sum();
                sum += blocks / session.len() as f64;
            }
            sum / sessions.len() as f64
        })
        .collect()
}

/// The acceleration from leaving out one independent piece after the other.
fn acceleration(sessions: &[Vec<f64>]) -> f64 {
    let pieces: Vec<f64> = match sessions {
        [blocks] => blocks.clone(),
        _ => sessions.iter().map(|blocks| mean(blocks)).collect(),
    };
    // The mean without one piece moves in proportion to that piece's distance from the mean.
    let centre = mean(&pieces);
    let (squares, cubes) = pieces.iter().fold((0.0, 0.0), |(s, c), p| {
        let d = p - centre;
        (s + d * d, c + d * d * d)
    });
    if squares > 0.0 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 }
}
