//! Which states of sessions make an arm slower or faster than its baseline.
//!
//! A unit of work costs the time that all sessions have, divided by the rate of the work. That cost is the sum of what it costs
//! in each state, so its growth is a sum over states too.

use super::{Entry, ITEM, is_backend};
use crate::index::Index;
use holdup_model::outcome::{CostChange, StatePoints, TimePoints};
use holdup_model::{Comparison, Direction, Measured, Trial, Verdict};
use holdup_stats::{BlockValue, Effect};
use std::collections::{BTreeMap, BTreeSet};

/// A smaller change of a state is left out.
const LEAST: f64 = 0.01;

/// The time of sessions for a unit of work, by state, s.
type Costs = BTreeMap<String, f64>;
type Block = (u32, u32);

/// Where the time went of a comparison that is decided; `None` where no state's change is beyond its interval, or its
/// trials have no account of PostgreSQL's sessions.
pub(crate) fn of_comparison(index: &Index<'_>, c: &Comparison) -> Option<TimePoints> {
    let is_rate = c.metric.better == Direction::Higher && c.metric.unit.ends_with("/s");
    if !(c.primary && is_rate && c.verdict == Verdict::Different) {
        return None;
    }
    let ratio = c.ratio.as_ref()?.value;
    let side = |trials: &[u32]| costs(index, trials, &c.metric.id);
    let (a, b) = (side(&c.baseline.as_ref()?.trials), side(&c.level.as_ref()?.trials));
    let pairs: Vec<(Block, &Costs, &Costs)> =
        a.iter().filter_map(|(block, a)| Some((*block, a, b.get(block)?))).collect();
    points(&pairs, ratio, index.level())
}

/// What a unit of work costs in each block.
fn costs(index: &Index<'_>, trials: &[u32], metric: &str) -> BTreeMap<Block, Costs> {
    let mut sums: BTreeMap<Block, (Costs, f64)> = BTreeMap::new();
    for trial in index.bundle.trials.iter().filter(|t| trials.contains(&t.seq)) {
        let (Some(times_s), Some(rate), Some(window)) = (times_s(trial), trial.metric(metric), trial.window) else {
            continue;
        };
        let (states, work) = sums.entry((trial.session, trial.block)).or_default();
        times_s.into_iter().for_each(|(name, s)| *states.entry(name).or_default() += s);
        *work += rate * window.length_ns as f64 / 1e9;
    }
    let is_usable = |(states, work): &(Costs, f64)| *work > 0.0 && states.values().sum::<f64>() > 0.0;
    let cost = |(states, work): (Costs, f64)| states.into_iter().map(|(name, s)| (name, s / work)).collect();
    sums.into_iter().filter(|(_, sum)| is_usable(sum)).map(|(block, sum)| (block, cost(sum))).collect()
}

/// The time of PostgreSQL's sessions by state in a trial, s. That of those that wait for their clients is in it: without it
/// the states would not add up to the time of all sessions.
fn times_s(trial: &Trial) -> Option<Costs> {
    let account = trial.evidence.iter().find(|c| c.collector == super::ACCOUNT)?;
    let mut times_s = Costs::new();
    for item in account.items.iter().filter(|i| i.name == ITEM) {
        let Measured::Value(seconds) = &item.value else { return None };
        let entry = Entry::of(item.label.as_deref().unwrap_or_default());
        if is_backend(entry.kind) {
            *times_s.entry(entry.name().into_owned()).or_default() += seconds;
        }
    }
    Some(times_s)
}

/// The change of each state's cost, in points of the cost on the slower side. With as many sessions on both sides the points
/// add up to the share of the throughput that is lost.
fn points(pairs: &[(Block, &Costs, &Costs)], ratio: f64, level: f64) -> Option<TimePoints> {
    let all = |costs: &Costs| costs.values().sum::<f64>();
    let grows = pairs.iter().map(|(_, a, b)| (all(b) / all(a)).ln()).sum::<f64>() > 0.0;
    let ordered: Vec<(Block, &Costs, &Costs)> =
        pairs.iter().map(|(block, a, b)| if grows { (*block, *a, *b) } else { (*block, *b, *a) }).collect();
    let total = ordered.iter().map(|(_, low, high)| 1.0 - all(low) / all(high)).sum::<f64>() / ordered.len() as f64;
    let names: BTreeSet<&String> = pairs.iter().flat_map(|(_, a, b)| a.keys().chain(b.keys())).collect();
    let confidence = 1.0 - level / names.len().max(1) as f64;
    let state = |name: &String| {
        let of = |costs: &Costs| costs.get(name).copied().unwrap_or(0.0);
        let by_block = ordered.iter().map(|((session, block), low, high)| BlockValue {
            session: *session,
            block: *block,
            // Effects are of logarithms, so that of the exponential is the plain mean.
            value: ((of(high) - of(low)) / all(high)).exp(),
        });
        let e = Effect::of_mean(&by_block.collect::<Vec<_>>()).and_then(|e| e.estimate(confidence)).ok()?;
        Some(StatePoints { name: name.clone(), points: e.value.ln(), low: e.low.ln(), high: e.high.ln() })
    };
    let is_apart = |s: &StatePoints| (s.low > 0.0 || s.high < 0.0) && s.points.abs() >= LEAST;
    let mut states: Vec<StatePoints> = names.into_iter().filter_map(state).filter(is_apart).collect();
    states.sort_by(|a, b| b.points.total_cmp(&a.points));
    let change = match grows {
        true if (total - (1.0 - ratio)).abs() < LEAST => CostChange::Lost,
        true => CostChange::More,
        false => CostChange::Less,
    };
    let has_reason = total >= LEAST && states.first().is_some_and(|s| s.points > 0.0);
    has_reason.then_some(TimePoints { change, points: total, states })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(states: &[(&str, f64)]) -> Costs {
        states.iter().map(|(name, s)| ((*name).to_owned(), *s)).collect()
    }

    fn of(sides: &[(Costs, Costs)], ratio: f64) -> Option<TimePoints> {
        let pairs: Vec<(Block, &Costs, &Costs)> = (0..).zip(sides).map(|(n, (a, b))| ((0, n), a, b)).collect();
        points(&pairs, ratio, 0.05)
    }

    /// 1.0 s of sessions for a unit of work against 1.4 s, of which 0.36 s are for a row.
    fn slower(shift: f64) -> (Costs, Costs) {
        let a = costs(&[("on a CPU", 0.60), ("Lock:transactionid", 0.40)]);
        let b = costs(&[("on a CPU", 0.64 - shift), ("Lock:transactionid", 0.76 + shift)]);
        (a, b)
    }

    #[test]
    fn lost_points_are_those_of_the_states_that_grew() {
        let found = of(&[slower(0.001), slower(-0.001), slower(0.0), slower(0.0)], 1.0 / 1.4).expect("a lock grew");
        assert_eq!(found.change, CostChange::Lost);
        // 0.4 of 1.4, 0.36 of 1.4, 0.04 of 1.4.
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b} {found:#?}");
        close(found.points, 0.285_714_3);
        close(found.states[0].points, 0.257_142_9);
        close(found.states[1].points, 0.028_571_4);
        assert_eq!(found.states[0].name, "Lock:transactionid");
        assert!(found.states[0].low < 0.257 && found.states[0].high > 0.2572, "{found:#?}");
    }

    #[test]
    fn a_faster_arm_saves_the_same_points() {
        let sides: Vec<(Costs, Costs)> =
            [slower(0.001), slower(-0.001), slower(0.0)].into_iter().map(|(a, b)| (b, a)).collect();
        let found = of(&sides, 1.4).expect("a lock shrank");
        assert_eq!((found.change, found.states.len()), (CostChange::Less, 2));
        assert!((found.states[0].points - 0.257_142_9).abs() < 1e-6, "{found:#?}");
    }

    /// With twice the sessions and the same throughput nothing is lost, but work costs twice the time.
    #[test]
    fn more_sessions_are_no_lost_throughput() {
        let side =
            |a: f64| (costs(&[("on a CPU", 1.0)]), costs(&[("on a CPU", 1.0 + a), ("LWLock:WALWrite", 1.0 - a)]));
        let found = of(&[side(0.0), side(0.001), side(-0.001)], 0.99).expect("a lock grew");
        assert_eq!((found.change, found.states.len()), (CostChange::More, 1));
        assert!((found.points - 0.5).abs() < 1e-9 && (found.states[0].points - 0.5).abs() < 1e-6, "{found:#?}");
    }

    #[test]
    fn what_is_within_the_interval_or_cannot_be_known_is_left_out() {
        assert_eq!(of(&[slower(0.3), slower(-0.3), slower(0.2)], 1.0 / 1.4), None);
        assert_eq!(of(&[slower(0.0)], 1.0 / 1.4), None, "one block has no interval");
        assert_eq!(of(&[], 1.0 / 1.4), None);
    }
}
