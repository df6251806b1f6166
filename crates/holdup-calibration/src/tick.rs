//! What the tick takes.

use super::bench::{gaps_ns, on_cpu, repeats};
use super::samples::quiet;
use super::{Context, Cost, Samples};
use holdup_model::Problem;

pub(super) const COST: Cost = Cost {
    name: "tick_ns",
    docs: "the lower quartile of the gaps between readings of the clock that come at the ticks' distance, in a loop of 12 ticks' \
           length where at least half of them are seen; a task switch at a tick is longer",
    measure,
};

/// Ticks in a repeat.
const TICKS: u64 = 12;
/// How far a tick may be from where it is expected.
const NEAR_NS: u64 = 30_000;

fn measure(context: &Context) -> Result<Samples, Problem> {
    let tick_ns = 1_000_000_000 / u64::from(context.hz.max(1));
    on_cpu(context.cpu()?, || repeats("ticks", || Ok(at_ticks(&gaps_ns(TICKS * tick_ns), tick_ns))))
}

/// The lower quartile of the gaps that come at the distance of ticks, of several close together the longest; `None` when they
/// are too few.
fn at_ticks(gaps: &[(u64, f64)], tick_ns: u64) -> Option<f64> {
    let with = |phase: u64| -> Vec<f64> {
        let mut longest = [0f64; TICKS as usize + 2];
        for (at, ns) in gaps {
            let from = (at + tick_ns / 2).wrapping_sub(phase % tick_ns);
            if (from % tick_ns).abs_diff(tick_ns / 2) <= NEAR_NS {
                let number = (from / tick_ns) as usize % longest.len();
                longest[number] = longest[number].max(*ns);
            }
        }
        longest.into_iter().filter(|ns| *ns > 0.0).collect()
    };
    // As many ticks as can be seen; of two phases with as many, the one whose gaps are longer.
    let rank = |ticks: &Vec<f64>| (ticks.len(), ticks.iter().fold(0.0, |sum, ns| sum + ns.min(1e5)) as u64);
    let ticks = gaps.iter().map(|(at, _)| with(*at)).max_by_key(rank)?;
    let enough = ticks.len() as u64 >= TICKS / 2;
    quiet(ticks).filter(|_| enough)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_distinguished_from_other_gaps_by_their_distance() {
        let tick_ns = 4_000_000;
        let ticks = (1..=12).map(|n| (1_000_777 + n * tick_ns, 2_000.0));
        let others = (1..200u64).map(|n| (n * n * 1_237, 90.0));
        let mut gaps: Vec<(u64, f64)> = ticks.chain(others).chain([(9_123_456, 3e6)]).collect();
        gaps.sort_by_key(|(at, _)| *at);
        assert_eq!(at_ticks(&gaps, tick_ns), Some(2_000.0));
        assert_eq!(at_ticks(&gaps[..2], tick_ns), None, "two gaps are no ticks");
        assert_eq!(at_ticks(&[], tick_ns), None);
    }
}
