//! How often the answers are right, by simulation from laws that are known.

use super::{CliffPoint, Repairman, Usl, find_cliff};
use crate::random::Noise;

/// A curve to draw data from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Truth {
    /// A Universal Scalability Law.
    Usl(Usl),
    /// A machine repairman.
    Repairman(Repairman),
}

impl Truth {
    /// The throughput at a load; NaN where it has none.
    pub fn throughput(&self, load: f64) -> f64 {
        let x = match self {
            Truth::Usl(usl) => usl.throughput(load),
            Truth::Repairman(queue) => queue.throughput(load),
        };
        x.unwrap_or(f64::NAN)
    }
}

/// A world that data are drawn from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct World<'a> {
    /// The smooth curve.
    pub truth: Truth,
    /// The loads.
    pub loads: &'a [f64],
    /// Blocks; each has all loads and its own level (standard deviation 5 %).
    pub blocks: u32,
    /// Standard deviation of the log of a value, at the smallest load.
    pub cv: f64,
    /// The same at the largest load; between them it grows with the log of the load.
    pub cv_at_largest: f64,
    /// The share that is lost beyond a place, and how many loads lie before that place.
    pub drop: Option<(f64, usize)>,
}

impl World<'_> {
    fn draw(&self, noise: &mut Noise, level_cv: f64) -> Vec<CliffPoint> {
        let (first, last) = (self.loads.first().copied().unwrap_or(1.0), self.loads.last().copied().unwrap_or(1.0));
        let span = (last / first).ln().max(f64::MIN_POSITIVE);
        let mut points = Vec::new();
        for block in 0..self.blocks {
            let level = (level_cv * noise.normal()).exp();
            for (i, load) in self.loads.iter().enumerate() {
                let cv = self.cv + (self.cv_at_largest - self.cv) * (load / first).ln() / span;
                let left = self.drop.map_or(1.0, |(share, before)| if i >= before { 1.0 - share } else { 1.0 });
                let value = level * left * self.truth.throughput(*load) * (cv * noise.normal()).exp();
                points.push(CliffPoint { load: *load, value, block });
            }
        }
        points
    }
}

/// What came of many searches for a cliff, as shares of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CliffRates {
    /// A cliff was reported.
    pub found: f64,
    /// A cliff was reported, and the interval of its place holds the right place.
    pub interval_holds_place: f64,
}

/// Draws data `runs` times and looks for a cliff each time.
pub fn cliff_rates(world: &World<'_>, runs: u32, seed: u64) -> CliffRates {
    let mut noise = Noise::new(seed);
    let (mut found, mut holding) = (0_u32, 0_u32);
    for run in 0..runs {
        let points = world.draw(&mut noise, 0.05);
        let Ok(search) = find_cliff(&points, seed.wrapping_add(u64::from(run))) else { continue };
        let Some(cliff) = search.cliff else { continue };
        found += 1;
        let right =
            world.drop.and_then(|(_, before)| world.loads.get(before.checked_sub(1)?).zip(world.loads.get(before)));
        holding += u32::from(
            right.is_some_and(|(low, high)| cliff.low <= *low * (1.0 + 1e-9) && cliff.high >= *high * (1.0 - 1e-9)),
        );
    }
    let share = |count: u32| f64::from(count) / f64::from(runs.max(1));
    CliffRates { found: share(found), interval_holds_place: share(holding) }
}
