//! Work of a known length: a chain of dependent arithmetic, timed once for each session.
//!
//! The time of one iteration is the slope between a short and a long chain, and what a chain costs
//! beside its iterations is the rest. The least of several rounds counts, because everything that
//! disturbs a round makes it longer. Later rounds of the same kind show how far the clock of the
//! CPU has drifted since.

use holdup_load::clock::now_ns;
use holdup_model::Fact;
use std::hint::black_box;

/// The rounds of the calibration that a session begins with.
const ROUNDS: usize = 41;
/// The rounds of a look at the drift.
const ROUNDS_OF_A_LOOK: usize = 9;
/// Iterations of the short chain, and how often it is run in a round.
const SHORT: (u64, u64) = (32, 400);
/// Iterations of the long chain, and how often it is run in a round.
const LONG: (u64, u64) = (4096, 8);
/// A longer chain is cut so that the stop flag is looked at: about 20 µs.
const PIECE: u64 = 16_384;

/// Where its facts come from.
const SOURCE: &str = "a chain of dependent multiplications and additions, timed with CLOCK_MONOTONIC";

/// `iterations` steps of a linear congruential chain from `x`; each step waits for the one before, and so does
/// the code that uses the result. A chain that began from a constant would be begun ahead of time by a CPU
/// that executes out of order, while what stands before it is still running.
#[inline(always)]
fn chain(mut x: u64, iterations: u64) -> u64 {
    for _ in 0..iterations {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // SAFETY: no instruction; it only keeps the compiler from folding two steps into one.
        unsafe { std::arch::asm!("/* {0} */", inout(reg) x, options(nomem, nostack, preserves_flags)) };
    }
    x
}

/// A piece of work of a fixed number of iterations; none is really none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    iterations: u64,
}

impl Work {
    /// Nothing.
    pub const NONE: Work = Work { iterations: 0 };

    /// True if there is nothing to do.
    pub fn is_none(self) -> bool {
        self == Work::NONE
    }

    /// Does it once `after` is known; the result is known once it is done. Ends early, soon, once `stopped` says so.
    #[inline(always)]
    pub fn run(self, after: u64, stopped: &impl Fn() -> bool) -> u64 {
        if self.iterations <= PIECE { chain(after, self.iterations) } else { long(after, self.iterations, stopped) }
    }
}

#[cold]
fn long(after: u64, iterations: u64, stopped: &impl Fn() -> bool) -> u64 {
    let (mut x, mut left) = (after, iterations);
    while left > 0 && !stopped() {
        let piece = left.min(PIECE);
        x = chain(x, piece);
        left -= piece;
    }
    x
}

/// What the calibration found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// The least time of one iteration over all rounds, ns.
    pub iteration_ns: f64,
    /// What a chain costs beside its iterations, ns.
    pub overhead_ns: f64,
    /// How far the middle round lies above the least one, as a share.
    pub spread: f64,
    /// How many rounds there were.
    pub rounds: usize,
    /// The least time between two readings of the clock, ns: a part of every sampled acquisition.
    pub clock_ns: f64,
}

impl Calibration {
    /// Times the chain on the calling thread; takes some milliseconds.
    pub fn measure() -> Self {
        // A sleeping CPU needs a while to come up to speed.
        let warm_until = now_ns() + 10_000_000;
        while now_ns() < warm_until {
            black_box(chain(0, LONG.0));
        }
        let (iterations, overheads) = rounds(ROUNDS);
        let least = iterations[0];
        Calibration {
            iteration_ns: least,
            overhead_ns: overheads[0].max(0.0),
            spread: iterations[ROUNDS / 2] / least - 1.0,
            rounds: ROUNDS,
            clock_ns: clock_ns(),
        }
    }

    /// What a session says of it, under the name of its workload.
    pub fn facts(&self, workload: &str) -> Vec<Fact> {
        let Calibration { iteration_ns, overhead_ns, spread, rounds, clock_ns } = self;
        let fact = |key: &str, value: String| Fact::read(format!("{workload}.{key}"), value, SOURCE);
        vec![
            fact("iteration_ns", format!("{iteration_ns:.4}")),
            fact("overhead_ns", format!("{overhead_ns:.2}")),
            fact("calibration_spread_percent", format!("{:.1}", spread * 100.0)),
            fact("calibration_rounds", rounds.to_string()),
            fact("clock_reading_ns", format!("{clock_ns:.1}")),
            // In whole percents, because this is asked around every trial and what moved is kept.
            fact("calibration_drift_percent", format!("{:+.0}", self.drift() * 100.0)),
        ]
    }

    /// How much longer an iteration takes now than it did then, as a share; under a millisecond of work.
    pub fn drift(&self) -> f64 {
        rounds(ROUNDS_OF_A_LOOK).0[0] / self.iteration_ns - 1.0
    }

    /// The work that takes `ns`.
    pub fn work(&self, ns: u64) -> Work {
        if ns == 0 {
            return Work { iterations: 0 };
        }
        let iterations = ((ns as f64 - self.overhead_ns) / self.iteration_ns).round();
        Work { iterations: (iterations as u64).max(1) }
    }
}

/// The time of one iteration and of what stands beside it in each round, both ascending, ns.
fn rounds(n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut iterations = Vec::with_capacity(n);
    let mut overheads = Vec::with_capacity(n);
    for _ in 0..n {
        let (short, long) = (each(SHORT), each(LONG));
        let slope = (long - short) / (LONG.0 - SHORT.0) as f64;
        if slope > 0.0 {
            iterations.push(slope);
            overheads.push(short - slope * SHORT.0 as f64);
        }
    }
    // Only when the short chain was interrupted in every round for longer than all long ones took.
    if iterations.is_empty() {
        iterations.push(each(LONG) / LONG.0 as f64);
        overheads.push(0.0);
    }
    while iterations.len() < n {
        iterations.push(f64::INFINITY);
        overheads.push(f64::INFINITY);
    }
    iterations.sort_by(f64::total_cmp);
    overheads.sort_by(f64::total_cmp);
    (iterations, overheads)
}

/// The time of one run of a chain, ns.
fn each((iterations, times): (u64, u64)) -> f64 {
    let begin = now_ns();
    let mut x = begin;
    for _ in 0..times {
        x = chain(x, black_box(iterations));
    }
    black_box(x);
    (now_ns() - begin) as f64 / times as f64
}

fn clock_ns() -> f64 {
    let least = |times: u64| {
        let begin = now_ns();
        for _ in 0..times {
            black_box(now_ns());
        }
        (now_ns() - begin) as f64 / (times + 1) as f64
    };
    (0..ROUNDS).map(|_| least(100)).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_no_work_and_any_time_is_some() {
        let calibration = Calibration { iteration_ns: 1.25, overhead_ns: 5.0, spread: 0.0, rounds: 1, clock_ns: 20.0 };
        for (ns, iterations) in [(0, 0), (1, 1), (5, 1), (6, 1), (100, 76), (1_000_000, 799_996)] {
            assert_eq!(calibration.work(ns).iterations, iterations, "{ns} ns");
        }
        assert!(calibration.work(u64::MAX).iterations > 1 << 62);
    }

    #[test]
    fn endless_work_ends_when_stopped() {
        Work { iterations: u64::MAX }.run(0, &|| true);
    }

    #[test]
    fn the_calibration_is_a_time_and_work_takes_at_least_as_long_as_asked() {
        let calibration = Calibration::measure();
        assert!(calibration.iteration_ns > 0.05 && calibration.iteration_ns < 1_000.0, "{calibration:?}");
        assert!(calibration.spread >= 0.0, "{calibration:?}");
        let work = calibration.work(2_000_000);
        let took = (0..20)
            .map(|_| {
                let begin = now_ns();
                black_box(work.run(0, &|| false));
                now_ns() - begin
            })
            .min()
            .expect("20 rounds");
        // Only from below: a CPU that others use makes work longer, never shorter. A clock that rises
        // after the calibration makes it shorter; the half is far beyond that.
        assert!(took > 1_000_000, "2 ms of work took {took} ns at best, with {calibration:?}");
    }
}
