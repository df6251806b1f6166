//! Series of thousands of values: windows of them, then each change beside its neighbours.

use super::{ChangeOptions, ChangePoint, Series, change_points, check};
use crate::NoEstimate;

/// The longest series that is looked at as a whole.
const WHOLE: usize = 400;

/// Values of a window. A small change needs many values to be seen, and the time for a window grows with its length.
const WINDOW: usize = 300;

/// Finds the changes of a series, as [`change_points`] does, in a time that grows with its length alone.
///
/// A series of more than 400 values is looked through in windows of 300 that overlap by half, each at alpha by the number of windows
/// (Bonferroni). What neighbouring windows find at nearly the same place is one change. At the end each place moves to the best split
/// between its neighbours, as far as a window reaches. A change that only more than 300 values show is not found.
///
/// # Errors
/// As for [`change_points`].
pub fn change_points_of_long(values: &[f64], options: ChangeOptions) -> Result<Vec<ChangePoint>, NoEstimate> {
    if values.len() <= WHOLE {
        return change_points(values, options);
    }
    check(values, options)?;
    let series = Series::of(values);
    let begins: Vec<usize> = windows(values.len());
    let alpha = options.alpha / begins.len() as f64;
    let permutations = options.permutations.max((1.0 / alpha).ceil() as u32);
    let mut found: Vec<ChangePoint> = Vec::new();
    for begin in begins {
        let window = &values[begin..(begin + WINDOW).min(values.len())];
        let within = ChangeOptions { alpha, permutations, ..options };
        for change in change_points(window, within)? {
            let moved = ChangePoint {
                index: change.index + begin,
                index_low: change.index_low + begin,
                index_high: change.index_high + begin,
                ..change
            };
            found.push(moved);
        }
    }
    found.sort_by_key(|c| c.index);
    let merged = merge(found, options.min_segment);
    let mut edges: Vec<usize> = merged.iter().map(|c| c.index).collect();
    edges.insert(0, 0);
    edges.push(values.len());
    series.settle_within(&mut edges, options.min_segment, WINDOW);
    let whole = edges.windows(3).zip(&merged).map(|(edges, change)| {
        let near = [edges[0].max(edges[1].saturating_sub(WINDOW)), edges[1], edges[2].min(edges[1] + WINDOW)];
        series.describe(&near, change.p, options)
    });
    Ok(whole.collect())
}

/// Where windows begin; the last one ends with the series.
fn windows(n: usize) -> Vec<usize> {
    let last = n.saturating_sub(WINDOW);
    let mut begins: Vec<usize> = (0..last).step_by(WINDOW / 2).collect();
    begins.push(last);
    begins
}

/// Changes whose places overlap, or that would leave too short a segment between them, are one: that with the smallest p.
fn merge(found: Vec<ChangePoint>, min_segment: usize) -> Vec<ChangePoint> {
    let mut merged: Vec<ChangePoint> = Vec::new();
    for change in found {
        match merged.last_mut() {
            Some(last) if change.index_low <= last.index_high || change.index < last.index + min_segment => {
                if change.p < last.p {
                    *last = change;
                }
            }
            _ => merged.push(change),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Noise;

    fn noisy(n: usize, seed: u64, level: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut noise = Noise::new(seed);
        (0..n).map(|i| level(i) * (0.02 * noise.normal()).exp()).collect()
    }

    #[test]
    fn changes_of_a_long_series_are_found_where_they_are() {
        let level = |i: usize| match i {
            0..700 => 100.0,
            700..1_510 => 95.0,
            1_510..1_900 => 101.0,
            _ => 97.0,
        };
        let found = change_points_of_long(&noisy(2_500, 3, level), ChangeOptions::default()).expect("a series");
        let places: Vec<usize> = found.iter().map(|c| c.index).collect();
        assert_eq!(places.len(), 3, "{places:?}");
        for (place, truth) in places.iter().zip([700, 1_510, 1_900]) {
            assert!(place.abs_diff(truth) <= 3, "{place} for {truth}");
        }
        assert!((found[0].after / found[0].before - 0.95).abs() < 0.01);
    }

    #[test]
    fn a_long_series_without_a_change_has_none() {
        let accused = (0..20)
            .filter(|seed| {
                let values = noisy(1_000, 100 + seed, |_| 100.0);
                !change_points_of_long(&values, ChangeOptions::default()).expect("a series").is_empty()
            })
            .count();
        // At most 5 % each: more than 4 of 20 has a chance below 0.3 %.
        assert!(accused <= 4, "{accused} of 20");
    }
}
