//! Slow trials, by arm, and pairs of blocks without them.
//!
//! On a shared machine a few trials may run far slower than the others (a neighbour, a throttled CPU). A mean needs many
//! blocks to see anything beside them. What is far is measured by medians, which a minority of trials cannot move.

use crate::NoEstimate;
use crate::drift::ranks;
use crate::pieces::{BlockPair, count, log, mean, median};
use crate::random::Noise;
use holdup_model::Direction;
use statrs::function::factorial::ln_binomial;
use std::collections::{BTreeMap, BTreeSet};

/// A trial that is slower than its arm's median by more than this number of robust standard deviations is slow: of
/// normal trials 1 in 3.5 million is.
pub const FAR: f64 = 5.0;

/// With fewer blocks than this no trial is called slow: the usual spread is not known well enough.
pub const MIN_TRIMMED_BLOCKS: usize = 6;

/// With fewer blocks left than this, or fewer than a third, every block is kept; found by calibration.
const MIN_KEPT: usize = 4;

/// Fewer slow trials in an arm than 2, and than 1 in 10, are not named: a t distribution has two now and then.
const MIN_NAMED: usize = 2;
const NAMED_OF: usize = 10;

/// The median distance of normal values from their median, by their standard deviation.
const MEDIAN_DISTANCE: f64 = 0.674_489_750_196_081_7;

/// Shuffles of the permutation test.
const SHUFFLES: u32 = 9_999;

/// A value of an arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArmValue {
    /// The arm.
    pub arm: u32,
    /// The session.
    pub session: u32,
    /// The value.
    pub value: f64,
}

/// The slow trials of an arm; there may be none.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowTrials {
    /// The arm.
    pub arm: u32,
    /// Its slow trials, as places in the list of values.
    pub slow: Vec<usize>,
    /// The others.
    pub others: Vec<usize>,
    /// The geometric mean of the slow ones by that of the others; 1 without slow ones.
    pub ratio: f64,
    /// True if they are more than chance makes of ordinary noise: two at least and one in ten.
    pub is_named: bool,
}

/// Pairs, and which blocks were left out of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Trimmed {
    /// The blocks that are kept, one pair for each.
    pub kept: Vec<BlockPair>,
    /// Blocks before.
    pub blocks: u32,
    /// Blocks whose trial of A is slow.
    pub slow_a: u32,
    /// Blocks whose trial of B is slow.
    pub slow_b: u32,
    /// Why every block is kept all the same.
    pub untrimmed: Option<&'static str>,
}

/// Leaves out the blocks in which a trial is slow: of A, of B or of both. Several trials of one arm in a block are averaged first.
///
/// Slow is beyond [`FAR`] robust standard deviations from the arm's median, on the side that is not better; the deviation is
/// 1.48 times the median distance of the trials of both arms from their own medians. With several sessions of
/// three blocks and more their medians are taken out. Which blocks go depends on neither the ratio nor its verdict: a factor on all of B changes nothing.
///
/// # Errors
/// With a value that has no logarithm.
pub fn trim(pairs: &[BlockPair], better: Direction) -> Result<Trimmed, NoEstimate> {
    let mut blocks: BTreeMap<(u32, u32), (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for pair in pairs {
        let (a, b) = blocks.entry((pair.session, pair.block)).or_default();
        a.push(log(pair.a)?);
        b.push(log(pair.b)?);
    }
    let logs: Vec<(u32, u32, [f64; 2])> =
        blocks.iter().map(|((session, block), (a, b))| (*session, *block, [mean(a), mean(b)])).collect();
    let n = logs.len();
    let points = |arm: usize| logs.iter().map(move |(session, _, log)| (count(arm), *session, log[arm]));
    let lag = lags(&points(0).chain(points(1)).collect::<Vec<_>>(), better);
    let limit = FAR * deviation(&lag, n);
    // Where most values are the same, a step of the scale would be far.
    let is_slow = |i: usize| n >= MIN_TRIMMED_BLOCKS && limit > 0.0 && lag[i] > limit;
    // Then the median may be one of slow trials, and those left out would be the wrong ones.
    let is_unclear = [0, n].into_iter().any(|arm| {
        let far = |sign: f64| (arm..arm + n).filter(|&i| sign * lag[i] > limit).count();
        far(-1.0) >= 2 && far(-1.0) > far(1.0)
    });
    let pair = |i: usize| {
        let (session, block, [a, b]) = logs[i];
        BlockPair { session, block, a: a.exp(), b: b.exp() }
    };
    let kept: Vec<usize> = (0..n).filter(|&i| !is_slow(i) && !is_slow(n + i)).collect();
    let is_kept = kept.len() >= MIN_KEPT && 3 * kept.len() >= n;
    let untrimmed = if n < MIN_TRIMMED_BLOCKS {
        Some("fewer than 6 blocks, so slow trials count as well")
    } else if is_unclear {
        Some("many trials of an arm are far faster than its median, so slow trials count as well")
    } else if !is_kept {
        Some("too few blocks are without a slow trial, so slow trials count as well")
    } else {
        None
    };
    Ok(Trimmed {
        kept: if untrimmed.is_some() { (0..n).map(pair).collect() } else { kept.into_iter().map(pair).collect() },
        blocks: count(n),
        slow_a: count((0..n).filter(|&i| is_slow(i)).count()),
        slow_b: count((0..n).filter(|&i| is_slow(n + i)).count()),
        untrimmed,
    })
}

/// The slow trials of every arm of which they are a minority. Values without a logarithm are passed over.
///
/// The deviation is that of the arm or of all arms together, whichever is larger: a few trials know their own spread badly.
/// How often they are named where there are none: docs/calibration.md, "Slow trials".
pub fn slow_trials(values: &[ArmValue], better: Direction) -> Vec<SlowTrials> {
    let valid: Vec<usize> = (0..values.len()).filter(|&i| log(values[i].value).is_ok()).collect();
    let point = |i: &usize| (values[*i].arm, values[*i].session, values[*i].value.ln());
    let points: Vec<(u32, u32, f64)> = valid.iter().map(point).collect();
    let lag = lags(&points, better);
    let arms: BTreeSet<u32> = points.iter().map(|p| p.0).collect();
    let places = &points;
    let of_arm = |arm: u32| (0..places.len()).filter(move |&i| places[i].0 == arm);
    let mut found = Vec::new();
    for arm in arms {
        let own: Vec<f64> = of_arm(arm).map(|i| lag[i]).collect();
        let n = own.len();
        let limit = FAR * deviation(&own, n).max(deviation(&lag, n));
        let (slow, others): (Vec<usize>, Vec<usize>) = of_arm(arm).partition(|&i| limit > 0.0 && lag[i] > limit);
        if n < MIN_TRIMMED_BLOCKS || 2 * slow.len() >= n {
            continue;
        }
        let is_named = slow.len() >= MIN_NAMED.max(n.div_ceil(NAMED_OF));
        let level = |of: &[usize]| mean(&of.iter().map(|&i| points[i].2).collect::<Vec<_>>());
        let ratio = if slow.is_empty() { 1.0 } else { (level(&slow) - level(&others)).exp() };
        let of_values = |of: &[usize]| of.iter().map(|&i| valid[i]).collect();
        found.push(SlowTrials { arm, ratio, is_named, slow: of_values(&slow), others: of_values(&others) });
    }
    found
}

/// Fewer values in a session than this do not show what it shifts.
const MIN_OF_SESSION: usize = 6;

/// By how much each value of (arm, session, log) is worse than its arm's median; with several sessions of several blocks,
/// what all arms of a session share is taken out.
fn lags(points: &[(u32, u32, f64)], better: Direction) -> Vec<f64> {
    let sign = match better {
        Direction::Higher => -1.0,
        Direction::Lower => 1.0,
    };
    let mut lags: Vec<f64> = points.iter().map(|p| sign * p.2).collect();
    subtract_medians(&mut lags, &points.iter().map(|p| p.0).collect::<Vec<_>>());
    let sessions: Vec<u32> = points.iter().map(|p| p.1).collect();
    let of_each = points.len() / sessions.iter().collect::<BTreeSet<_>>().len().max(1);
    if of_each >= MIN_OF_SESSION && sessions.iter().any(|s| *s != sessions[0]) {
        subtract_medians(&mut lags, &sessions);
    }
    lags
}

fn subtract_medians(values: &mut [f64], groups: &[u32]) {
    let mut by_group: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    groups.iter().zip(values.iter()).for_each(|(group, value)| by_group.entry(*group).or_default().push(*value));
    let medians: BTreeMap<u32, f64> =
        by_group.into_iter().map(|(group, values)| (group, median(values).unwrap_or(f64::NAN))).collect();
    groups.iter().zip(values).for_each(|(group, value)| *value -= medians[group]);
}

/// The robust standard deviation of distances from medians of `n` values each (R's `mad`); such medians lie a bit too close
/// to their few values, n/(n − 0.8) makes up for it (Croux and Rousseeuw, 1992).
fn deviation(distances: &[f64], n: usize) -> f64 {
    let n = n as f64;
    let distance = median(distances.iter().map(|d| d.abs()).collect());
    distance.unwrap_or(f64::NAN) / MEDIAN_DISTANCE * n / (n - 0.8)
}

/// Fisher's exact test, two-sided as R's `fisher.test`: p of shares as unequal as `hits` of `n` and `other_hits` of `other_n`.
pub fn fisher_exact(hits: u32, n: u32, other_hits: u32, other_n: u32) -> f64 {
    let (n, other_n, all) = (u64::from(n), u64::from(other_n), u64::from(hits) + u64::from(other_hits));
    if all > n + other_n {
        return 1.0;
    }
    let log_p = |k: u64| ln_binomial(n, k) + ln_binomial(other_n, all - k) - ln_binomial(n + other_n, all);
    // As probable but for rounding: R's tolerance.
    let limit = log_p(u64::from(hits).min(n)) + 1e-7;
    let ways = all.saturating_sub(other_n)..=all.min(n);
    ways.map(log_p).filter(|p| *p <= limit).map(f64::exp).sum::<f64>().min(1.0)
}

/// p of "the marked values are no larger than the others", one-sided, by shuffling the marks within each group; the statistic is
/// the sum of the marked ranks. The seed decides every shuffle.
pub fn p_of_larger(groups: &[Vec<(f64, bool)>], seed: u64) -> f64 {
    let mut noise = Noise::new(seed);
    let mut groups: Vec<(Vec<f64>, usize, f64)> = groups
        .iter()
        .map(|group| {
            let ranks = ranks(&group.iter().map(|(value, _)| *value).collect::<Vec<_>>());
            let marked = group.iter().zip(&ranks).filter(|((_, marked), _)| *marked);
            let (k, sum) = marked.fold((0, 0.0), |(k, sum), (_, rank)| (k + 1, sum + rank));
            (ranks, k, sum)
        })
        .collect();
    let found: f64 = groups.iter().map(|(_, _, sum)| sum).sum();
    let as_large = (0..SHUFFLES).filter(|_| {
        let mut sum = 0.0;
        for (ranks, k, _) in &mut groups {
            for i in 0..*k {
                let j = i + (noise.uniform() * (ranks.len() - i) as f64) as usize;
                ranks.swap(i, j);
                sum += ranks[i];
            }
        }
        sum >= found - 1e-9
    });
    (1.0 + as_large.count() as f64) / (1.0 + f64::from(SHUFFLES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_test_is_that_of_r() {
        // Fractions of binomials.
        let check = |a: (u32, u32), b: (u32, u32), p: f64| {
            let found = fisher_exact(a.0, a.1, b.0, b.1);
            assert!((found - p).abs() < 1e-9, "{a:?} {b:?}: {found}");
        };
        check((4, 20), (0, 20), 2.0 * 4845.0 / 91_390.0);
        check((4, 20), (0, 40), 4845.0 / 487_635.0);
        check((3, 20), (3, 20), 1.0);
        check((0, 5), (0, 9), 1.0);
        // Fisher's lady tasting tea.
        check((3, 4), (1, 4), 34.0 / 70.0);
    }

    /// Pairs around 1,000 with a little noise; `slow` names the blocks whose trial of A, and of B, is 30 % slower.
    fn pairs(n: u32, slow: [&[u32]; 2], ratio: f64) -> Vec<BlockPair> {
        let mut noise = Noise::new(7);
        let mut value = |slow: &[u32], block: u32| {
            1_000.0 * (1.0 + 0.01 * noise.normal()) * if slow.contains(&block) { 0.7 } else { 1.0 }
        };
        let pair = |block| BlockPair { session: 0, block, a: value(slow[0], block), b: ratio * value(slow[1], block) };
        (0..n).map(pair).collect()
    }

    #[test]
    fn blocks_with_a_slow_trial_go_at_any_ratio() {
        for ratio in [0.5, 1.0, 1.05, 3.0] {
            let trimmed = trim(&pairs(12, [&[2, 5], &[5, 9]], ratio), Direction::Higher).expect("pairs");
            let kept: Vec<u32> = trimmed.kept.iter().map(|p| p.block).collect();
            assert_eq!(kept, [0, 1, 3, 4, 6, 7, 8, 10, 11], "{ratio}");
            assert_eq!((trimmed.blocks, trimmed.slow_a, trimmed.slow_b, trimmed.untrimmed), (12, 2, 2, None));
        }
        // Where less is better, they are fast ones: nothing goes.
        let trimmed = trim(&pairs(12, [&[2, 5], &[5, 9]], 1.0), Direction::Lower).expect("pairs");
        assert_eq!(trimmed.kept.len(), 12);
    }

    #[test]
    fn an_arm_that_is_mostly_slow_is_kept_whole() {
        for (slow, why) in [(&[0, 1, 2, 3, 4, 5][..], "far faster"), (&[0, 1, 2, 3][..], "")] {
            let trimmed = trim(&pairs(10, [slow, &[9]], 1.0), Direction::Higher).expect("pairs");
            assert_eq!(trimmed.untrimmed.is_some(), !why.is_empty(), "{trimmed:?}");
            assert!(trimmed.untrimmed.unwrap_or_default().contains(why), "{trimmed:?}");
            assert_eq!(trimmed.kept.len(), if why.is_empty() { 5 } else { 10 });
        }
    }

    #[test]
    fn what_a_session_shifts_does_not_make_its_trials_slow() {
        let shift = |p: &BlockPair| {
            let session = p.block / 4;
            let level = [1.0, 0.6, 1.5][session as usize];
            BlockPair { session, a: level * p.a, b: level * p.b, ..*p }
        };
        let shifted: Vec<BlockPair> = pairs(12, [&[6], &[]], 1.0).iter().map(shift).collect();
        let trimmed = trim(&shifted, Direction::Higher).expect("pairs");
        assert_eq!((trimmed.slow_a, trimmed.slow_b, trimmed.kept.len()), (1, 0, 11));
        assert!(trim(&[], Direction::Higher).is_ok_and(|t| t.kept.is_empty()));
        assert!(trim(&[BlockPair { session: 0, block: 0, a: 0.0, b: 1.0 }], Direction::Higher).is_err());
    }

    #[test]
    fn a_permutation_counts_the_orders() {
        let group = |slow: &[f64], rest: &[f64]| -> Vec<(f64, bool)> {
            slow.iter().map(|v| (*v, true)).chain(rest.iter().map(|v| (*v, false))).collect()
        };
        // 3 of 9 on top: 1 of 84 orders. Twice: 1 of 84².
        let rest = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let once = p_of_larger(&[group(&[7.0, 8.0, 9.0], &rest)], 1);
        assert!((once - 1.0 / 84.0).abs() < 0.003, "{once}");
        assert!(p_of_larger(&[group(&[7.0, 8.0, 9.0], &rest), group(&[70.0, 80.0, 90.0], &rest)], 1) < 0.001);
        assert!(p_of_larger(&[group(&[0.0, 0.0, 0.0], &[0.0; 6])], 1) == 1.0, "what never moves shows nothing");
        assert!(p_of_larger(&[group(&[1.0, 2.0, 3.0], &[7.0; 6])], 1) > 0.98);
    }
}
