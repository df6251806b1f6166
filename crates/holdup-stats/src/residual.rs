//! How long something is, from how much of it was left when it was interrupted.
//!
//! Interruptions that come at any moment fall into long sections more often than into short ones. Of a section that was
//! interrupted, what is left (the residual, or remaining time) has the density P(L > v) / E\[L\], for lengths L
//! (Cox, Renewal Theory, 5.1 to 5.4). At v = 0 that is 1 / E\[L\]: the mean length of all sections is one by the density of
//! the residuals at zero. The mean of the residuals is E\[L²\] / 2E\[L\], which is right for exponential lengths only; their
//! harmonic mean goes to zero with the number of samples, because the mean of 1/V does not exist.

use crate::NoEstimate;
use crate::pieces::count;
use crate::random::Noise;
use holdup_model::{Estimate, SparseHistogram};

/// Fewer residuals than this have no density that could be looked at.
pub const MIN_RESIDUALS: u64 = 100;
/// Residuals in the narrowest window at zero.
const FIRST_COUNT: f64 = 50.0;
/// Ratio of the residuals in a window to those in the one before.
const STEP: f64 = 1.414;
/// Estimates from two windows agree when they lie within this number of standard errors of the difference; found by
/// simulation: wider, and the bias of a window that is too wide stays unseen in intervals that are too narrow.
const AGREE: f64 = 1.6;
/// The values at zero are gathered into at most this number of groups before they are resampled.
const GROUPS: u64 = 400;
/// Resamples of the interval.
const RESAMPLES: u32 = 400;

/// Residuals of about one value.
#[derive(Debug, Clone, Copy)]
struct Group {
    /// The end of the group, ns.
    end: f64,
    /// How many.
    count: f64,
    /// Their mean, ns.
    mean: f64,
}

/// The mean length of all sections, in ns, from the residuals of those that were interrupted, with a bootstrap interval.
///
/// The density at zero is a straight line fitted to the residuals below a bound (local linear, uniform kernel), which is
/// not bent towards zero at the edge as a histogram's first bar or a kernel's average is. The bound is the widest at
/// which the estimate still agrees with those of all narrower ones (Lepski's method), and never beyond `limit_ns`, from
/// which on residuals were cut off: those count as longer, however long they were. The seed decides every draw.
///
/// Limits, by simulation: the interval is meant for 95 %. With 20,000 residuals it holds the truth in 93 to 97 of 100 runs,
/// with 1,000 in 90 for exponential lengths and 84 where lengths differ tenfold.
///
/// # Errors
/// With fewer than [`MIN_RESIDUALS`] below the limit, or when too many have one value for a density.
pub fn mean_length(residuals: &SparseHistogram, limit_ns: Option<u64>, seed: u64) -> Result<Estimate, NoEstimate> {
    let limit = limit_ns.unwrap_or(u64::MAX);
    let all = residuals.count() as f64;
    let below: u64 = residuals.buckets().filter(|(_, high, _)| *high < limit).map(|(_, _, n)| n).sum();
    if below < MIN_RESIDUALS {
        return Err(NoEstimate::new(format!("{below} residuals are too few, {MIN_RESIDUALS} are the least")));
    }
    let groups = groups(residuals, limit, below);
    let density = density_at_zero(&groups, all)
        .ok_or_else(|| NoEstimate::new("too many residuals have one value: the density at zero cannot be estimated"))?;
    let mut noise = Noise::new(seed);
    let mut draws: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let drawn: Vec<Group> = groups.iter().map(|g| redraw(*g, &mut noise)).collect();
            // The number of all residuals is what it is: what is drawn is where they fall.
            density_at_zero(&drawn, all).map(|d| 1.0 / d)
        })
        .collect();
    if draws.len() < RESAMPLES as usize * 9 / 10 {
        return Err(NoEstimate::new("the density at zero is too small to be distinguished from none"));
    }
    draws.sort_by(f64::total_cmp);
    let at = |share: f64| draws[((draws.len() - 1) as f64 * share).round() as usize];
    let method = format!("1/f(0) of {below} residuals, local linear density, {RESAMPLES} resamples");
    let n = count(usize::try_from(below).unwrap_or(usize::MAX));
    let value = 1.0 / density;
    Ok(Estimate { value, low: at(0.025).min(value), high: at(0.975).max(value), confidence: 0.95, n, method })
}

/// The middle of a histogram's bucket: it holds the times from `low` to before `high + 1`.
fn middle(low: u64, high: u64) -> f64 {
    (low as f64 + high as f64 + 1.0) / 2.0
}

/// Neighbouring buckets below the limit, gathered, each with about the same number of residuals.
fn groups(residuals: &SparseHistogram, limit: u64, below: u64) -> Vec<Group> {
    let least = below.div_ceil(GROUPS);
    let mut groups = Vec::new();
    let (mut number, mut sum) = (0_u64, 0.0);
    for (low, high, n) in residuals.buckets().filter(|(_, high, _)| *high < limit) {
        number += n;
        sum += n as f64 * middle(low, high);
        // The first groups are small, so that there are narrow windows at zero.
        if number >= least.min(1 + groups.len() as u64 / 4) {
            groups.push(Group { end: high as f64 + 1.0, count: number as f64, mean: sum / number as f64 });
            (number, sum) = (0, 0.0);
        }
    }
    groups
}

/// The group as another sample would have it: a Poisson number, by its normal limit from ten on.
fn redraw(group: Group, noise: &mut Noise) -> Group {
    let count = if group.count >= 10.0 {
        (group.count + group.count.sqrt() * noise.normal()).max(0.0)
    } else {
        // Knuth, The Art of Computer Programming 2, 3.4.1: the products of uniform numbers until one is below e^-mean.
        let (bound, mut product, mut drawn) = ((-group.count).exp(), noise.uniform(), 0.0);
        while product > bound {
            product *= noise.uniform();
            drawn += 1.0;
        }
        drawn
    };
    Group { count, ..group }
}

/// The density at zero, per ns; `None` when no window gives one above zero.
fn density_at_zero(groups: &[Group], all: f64) -> Option<f64> {
    let (mut number, mut sum) = (0.0, 0.0);
    let mut next = FIRST_COUNT;
    // Lepski's method: the intervals of all windows so far must have a point in common.
    let (mut lowest, mut highest) = (f64::NEG_INFINITY, f64::INFINITY);
    let mut best = None;
    for group in groups {
        number += group.count;
        sum += group.count * group.mean;
        if number < next {
            continue;
        }
        next = number * STEP;
        let Some((density, error)) = line_at_zero(number, sum, group.end, all) else { continue };
        lowest = f64::max(lowest, density - AGREE * error);
        highest = f64::min(highest, density + AGREE * error);
        if lowest > highest {
            break;
        }
        best = Some(density).filter(|d| *d > 0.0).or(best);
    }
    best
}

/// Where the straight line through the residuals below `width` meets zero, with its standard error: of a density
/// a + b·v the share below w is aw + bw²/2 and the first moment aw²/2 + bw³/3.
fn line_at_zero(number: f64, sum: f64, width: f64, all: f64) -> Option<(f64, f64)> {
    let mean = sum / number / width;
    let share = number / all / width;
    let density = share * (4.0 - 6.0 * mean);
    // The variance of 4 - 6v/w, v uniform below w, is 3, and that of the number of Poisson adds its mean of 1 squared.
    let error = share * (4.0 / number).sqrt();
    (density.is_finite() && error.is_finite()).then_some((density, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN_NS: f64 = 100_000.0;

    /// A residual: a length drawn by how long it is, and the part of it behind a moment that is anywhere in it.
    type Draw = fn(&mut Noise) -> f64;

    fn exponential(noise: &mut Noise) -> f64 {
        -MEAN_NS * noise.uniform().ln()
    }

    fn constant(noise: &mut Noise) -> f64 {
        MEAN_NS * noise.uniform()
    }

    /// Nine of ten lengths are exponential with a mean of 0.5, one with a mean of 5.5: the mean is 1, and an interruption
    /// falls into a long one 55 times in 100.
    fn mixed(noise: &mut Noise) -> f64 {
        let mean = if noise.uniform() < 0.55 { 5.5 } else { 0.5 };
        -MEAN_NS * mean * noise.uniform().ln()
    }

    fn sample(draw: Draw, n: u32, seed: u64) -> SparseHistogram {
        let mut noise = Noise::new(seed);
        let mut histogram = SparseHistogram::new();
        (0..n).for_each(|_| histogram.record_ns(draw(&mut noise) as u64));
        histogram
    }

    #[test]
    fn the_length_is_one_by_the_density_at_zero_and_not_the_harmonic_mean() {
        for (name, draw) in [("exponential", exponential as Draw), ("constant", constant), ("mixed", mixed)] {
            let residuals = sample(draw, 200_000, 11);
            let e = mean_length(&residuals, None, 1).expect(name);
            let inverse: f64 = residuals.buckets().map(|(low, high, n)| n as f64 / middle(low, high)).sum();
            let (found, harmonic) = (e.value / MEAN_NS, residuals.count() as f64 / inverse / MEAN_NS);
            let plain = residuals.mean_ns().expect(name) / MEAN_NS;
            println!(
                "{name}: 1/f(0) {found:.3} ({:.3}..{:.3}), harmonic {harmonic:.3}, plain {plain:.3}",
                e.low / MEAN_NS,
                e.high / MEAN_NS
            );
            assert!((found - 1.0).abs() < 0.05, "{name}: {e:?}");
            assert!(e.low <= MEAN_NS && MEAN_NS <= e.high, "{name}: {e:?}");
            assert!(harmonic < 0.2, "{name}: {harmonic}");
        }
    }

    #[test]
    fn the_interval_holds_the_truth() {
        for (name, draw, n, least) in [
            ("exponential", exponential as Draw, 1_000, 86),
            ("exponential", exponential, 20_000, 90),
            ("constant", constant, 1_000, 90),
            ("constant", constant, 20_000, 90),
            // Few of the short lengths are among them: the estimate is too large more often than it should be.
            ("mixed", mixed, 1_000, 80),
            ("mixed", mixed, 20_000, 90),
        ] {
            let runs = 100;
            let held = (0..runs)
                .filter(|seed| {
                    let e = mean_length(&sample(draw, n, 1_000 + seed), None, *seed).expect(name);
                    e.low <= MEAN_NS && MEAN_NS <= e.high
                })
                .count();
            println!("{name} {n}: {held} of {runs}");
            assert!(held * 100 >= runs as usize * least, "{name}, {n} residuals: {held} of {runs}");
        }
    }

    #[test]
    fn what_was_cut_off_counts_as_longer() {
        for (name, draw) in [("exponential", exponential as Draw), ("mixed", mixed)] {
            let limit = MEAN_NS as u64 / 2;
            let mut cut = SparseHistogram::new();
            for (low, high, n) in sample(draw, 100_000, 5).buckets() {
                cut.record_n_ns(((low + high) / 2).min(limit), n);
            }
            let e = mean_length(&cut, Some(limit), 2).expect(name);
            assert!((e.value / MEAN_NS - 1.0).abs() < 0.08, "{name}: {e:?}");
        }
    }

    #[test]
    fn too_few_or_degenerate_residuals_have_no_length() {
        assert!(mean_length(&SparseHistogram::new(), None, 1).is_err());
        assert!(mean_length(&sample(constant, 99, 1), None, 1).is_err());
        let mut one_value = SparseHistogram::new();
        one_value.record_n_ns(5_000, 1_000);
        assert!(mean_length(&one_value, None, 1).is_err());
        assert!(mean_length(&sample(constant, 1_000, 1), Some(10), 1).is_err(), "all were cut off");
    }
}
