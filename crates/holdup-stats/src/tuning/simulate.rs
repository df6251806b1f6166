//! Whole searches on made-up surfaces, for calibration.

use super::{Conflict, Factor, Next, Options, Outcome, Point, Seen, Space, Tuning};
use crate::NoEstimate;
use crate::pieces::BlockPair;
use crate::random::Noise;
use std::collections::BTreeMap;

/// What surfaces are drawn from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SurfaceOptions {
    /// Least and most factors.
    pub factors: (u32, u32),
    /// The most levels of a factor; at least 2.
    pub most_levels: u8,
    /// Least and most points of the grid; draws outside are thrown away.
    pub grid: (f64, f64),
    /// The share of surfaces on which nothing is better than the default.
    pub nothing_share: f64,
    /// Standard deviation of the logarithm of a trial.
    pub cv: f64,
    /// Standard deviation of the logarithm of what a block shares.
    pub block_cv: f64,
    /// True if there is a guard, which some levels make worse.
    pub has_guard: bool,
}

impl SurfaceOptions {
    /// 4 to 8 factors of 2 to 4 levels in grids of 64 to 4,096 points, with noise `cv`; on a tenth nothing gains.
    pub fn small(cv: f64) -> Self {
        SurfaceOptions {
            factors: (4, 8),
            most_levels: 4,
            grid: (64.0, 4096.0),
            nothing_share: 0.1,
            cv,
            block_cv: 0.03,
            has_guard: false,
        }
    }

    /// 12 to 20 factors of 2 to 4 levels.
    pub fn large(cv: f64) -> Self {
        SurfaceOptions { factors: (12, 20), grid: (0.0, f64::INFINITY), ..Self::small(cv) }
    }
}

/// How much a guard of a surface may get worse.
const GUARD_LOG: f64 = 0.05;

/// Factor and level.
type Setting = (usize, u8);

/// A made-up response surface.
#[derive(Debug, Clone, PartialEq)]
pub struct Surface {
    /// Its factors; no conflicts.
    pub space: Space,
    levels: Vec<Vec<f64>>,
    pairs: Vec<(Setting, Setting, f64)>,
    /// Where trials fail.
    fails: Vec<Vec<Setting>>,
    guard: Option<Vec<Vec<f64>>>,
    cv: f64,
    block_cv: f64,
}

impl Surface {
    /// Draws a surface: one to three in ten levels do something, by 2 to 20 %; some pairs do, with levels that matter or
    /// not; cliffs cost half of the metric, or every trial fails there.
    pub fn new(options: &SurfaceOptions, seed: u64) -> Self {
        let mut random = Noise::new(seed);
        loop {
            let surface = Surface::draw(options, &mut random);
            let grid = surface.grid();
            if grid >= options.grid.0 && grid <= options.grid.1 {
                return surface;
            }
        }
    }

    fn draw(options: &SurfaceOptions, random: &mut Noise) -> Self {
        let whole =
            |random: &mut Noise, from: u32, to: u32| from + (random.uniform() * f64::from(to - from + 1)) as u32;
        let factors = whole(random, options.factors.0, options.factors.1) as usize;
        let counts: Vec<u8> = (0..factors).map(|_| whole(random, 2, u32::from(options.most_levels)) as u8).collect();
        let has_gains = random.uniform() >= options.nothing_share;
        let effect = |random: &mut Noise, is_good: f64| {
            let size = 0.02 * 10_f64.powf(random.uniform());
            let is_up = random.uniform() < is_good && has_gains;
            if is_up { size.ln_1p() } else { (-size).ln_1p() }
        };
        let density = 0.15 + 0.25 * random.uniform();
        let mut levels: Vec<Vec<f64>> = Vec::new();
        for count in &counts {
            let mut all = vec![0.0];
            for _ in 1..*count {
                all.push(if random.uniform() < density { effect(random, 0.6) } else { 0.0 });
            }
            levels.push(all);
        }
        let pair = |random: &mut Noise| {
            let f = whole(random, 0, factors as u32 - 1) as usize;
            let g = (f + whole(random, 1, factors as u32 - 1) as usize) % factors;
            let mut level = |f: usize| (f, whole(random, 1, u32::from(counts[f]) - 1) as u8);
            (level(f), level(g))
        };
        let mut pairs = Vec::new();
        for _ in 0..whole(random, 1, 3) {
            let (a, b) = pair(random);
            pairs.push((a, b, effect(random, 0.6)));
        }
        let mut fails = Vec::new();
        // A level of a cliff, a pair of one, a level that fails, a pair that does.
        if random.uniform() < 0.3 {
            let ((f, l), _) = pair(random);
            levels[f][usize::from(l)] = 0.5_f64.ln();
        }
        if random.uniform() < 0.3 {
            let (a, b) = pair(random);
            pairs.push((a, b, 0.5_f64.ln()));
        }
        if random.uniform() < 0.3 {
            fails.push(vec![pair(random).0]);
        }
        if random.uniform() < 0.3 {
            let (a, b) = pair(random);
            fails.push(vec![a, b]);
        }
        let guard = options.has_guard.then(|| {
            let mut worse =
                |l: usize| if l > 0 && random.uniform() < 0.3 { 0.02 + 0.18 * random.uniform() } else { 0.0 };
            counts.iter().map(|count| (0..usize::from(*count)).map(&mut worse).collect()).collect()
        });
        let factor = |levels: &u8| Factor { levels: *levels, is_ordered: false, change_cost_s: 0.0 };
        let conflicts: Vec<Conflict> = Vec::new();
        let space = Space { factors: counts.iter().map(factor).collect(), conflicts };
        Surface { space, levels, pairs, fails, guard, cv: options.cv, block_cv: options.block_cv }
    }

    /// Points of the full grid.
    pub fn grid(&self) -> f64 {
        self.space.factors.iter().map(|f| f64::from(f.levels)).product()
    }

    /// The true logarithm of a point over the default; `None` where trials fail.
    pub fn value_log(&self, point: &Point) -> Option<f64> {
        let has = |(f, l): Setting| point.0[f] == l;
        if self.fails.iter().any(|fail| fail.iter().all(|x| has(*x))) {
            return None;
        }
        let levels: f64 = point.0.iter().zip(&self.levels).map(|(l, effects)| effects[usize::from(*l)]).sum();
        let pairs: f64 = self.pairs.iter().filter(|(a, b, _)| has(*a) && has(*b)).map(|(.., effect)| effect).sum();
        Some(levels + pairs)
    }

    /// True if a point keeps the guard; true without one.
    pub fn keeps_guard(&self, point: &Point) -> bool {
        self.guard_log(point).is_none_or(|worse| worse <= GUARD_LOG)
    }

    fn guard_log(&self, point: &Point) -> Option<f64> {
        let guard = self.guard.as_ref()?;
        Some(point.0.iter().zip(guard).map(|(l, worse)| worse[usize::from(*l)]).sum())
    }

    /// What a point is worth: `None` where trials fail or the guard is not kept.
    fn worth_log(&self, point: &Point) -> Option<f64> {
        self.value_log(point).filter(|_| self.keeps_guard(point))
    }

    /// The best true value: over every combination of the levels that a pair, a failure or a guard knows of; of the
    /// other factors each has its best level.
    pub fn best_log(&self) -> f64 {
        let mut bound: Vec<bool> = vec![self.guard.is_some(); self.space.factors.len()];
        let known = self.fails.iter().flatten().copied().chain(self.pairs.iter().flat_map(|(a, b, _)| [*a, *b]));
        known.for_each(|(f, _)| bound[f] = true);
        let mut point = Point::default_of(bound.len());
        for (f, effects) in self.levels.iter().enumerate().filter(|(f, _)| !bound[*f]) {
            let best = (0..effects.len()).max_by(|a, b| effects[*a].total_cmp(&effects[*b]));
            point.0[f] = best.unwrap_or(0) as u8;
        }
        let mut best = 0.0_f64;
        loop {
            best = best.max(self.worth_log(&point).unwrap_or(0.0));
            // Counts through the levels of the bound factors.
            let Some(at) = (0..bound.len()).find(|f| bound[*f] && point.0[*f] + 1 < self.space.factors[*f].levels)
            else {
                return best;
            };
            point.0[at] += 1;
            (0..at).filter(|f| bound[*f]).for_each(|f| point.0[f] = 0);
        }
    }

    /// Trials of these points in one block.
    fn measure(&self, points: &[Point], random: &mut Noise) -> Vec<(Point, Seen)> {
        let block = self.block_cv * random.normal();
        let trial = |point: &Point| {
            let noise = self.cv * random.normal();
            let guard_noise = self.cv * random.normal();
            let value_log = self.value_log(point).map(|v| v + block + noise);
            let guards_log = match self.guard_log(point) {
                Some(worse) => vec![value_log.map(|_| worse + block + guard_noise)],
                None => Vec::new(),
            };
            (point.clone(), Seen { value_log, guards_log })
        };
        points.iter().map(trial).collect()
    }

    /// Fresh blocks of the default and a point, as pairs; without those in which it failed.
    pub fn confirm(&self, point: &Point, blocks: u32, seed: u64) -> Vec<BlockPair> {
        let mut random = Noise::new(seed);
        let both = [Point::default_of(point.0.len()), point.clone()];
        let pairs = (0..blocks).filter_map(|block| {
            let seen = self.measure(&both, &mut random);
            let (a, b) = (seen[0].1.value_log?.exp(), seen[1].1.value_log?.exp());
            Some(BlockPair { session: 0, block, a, b })
        });
        pairs.collect()
    }
}

/// How a simulated search ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Played {
    /// The point it named.
    pub point: Point,
    /// Its true value over the default; `None` where trials fail or the guard is not kept.
    pub value_log: Option<f64>,
    /// The best true value there is.
    pub best_log: f64,
    /// Trials taken.
    pub trials: u32,
    /// Points of the full grid.
    pub grid: f64,
}

impl Played {
    fn new(surface: &Surface, point: Point, trials: u32) -> Self {
        let value_log = surface.worth_log(&point);
        Played { value_log, best_log: surface.best_log(), trials, grid: surface.grid(), point }
    }

    /// True if the point is within a share of the best.
    pub fn is_within(&self, share: f64) -> bool {
        self.value_log.is_some_and(|v| v >= self.best_log + (-share).ln_1p())
    }
}

/// Plays one search.
///
/// # Errors
/// Options that [`Tuning::new`] refuses.
pub fn simulate_tuning(surface: &Surface, options: &Options, seed: u64) -> Result<(Played, Outcome), NoEstimate> {
    let guards_log = if surface.guard.is_some() { vec![GUARD_LOG] } else { Vec::new() };
    let mut tuning = Tuning::new(surface.space.clone(), Options { seed, guards_log, ..options.clone() })?;
    let mut random = Noise::new(seed ^ 0x5EED);
    while let Next::Measure { points, .. } = tuning.next() {
        let default = Point::default_of(surface.space.factors.len());
        let points: Vec<Point> = std::iter::once(default).chain(points).collect();
        tuning.add_block(&surface.measure(&points, &mut random))?;
    }
    let outcome = tuning.outcome();
    Ok((Played::new(surface, outcome.best.clone(), tuning.trials()), outcome))
}

fn random_points(surface: &Surface, count: u32, random: &mut Noise) -> Vec<Point> {
    let mut points = vec![Point::default_of(surface.space.factors.len())];
    for _ in 1..count {
        let level = |f: &Factor| (random.uniform() * f64::from(f.levels)) as u8;
        points.push(Point(surface.space.factors.iter().map(level).collect()));
    }
    points.sort();
    points.dedup();
    points
}

/// Plays a random search: as many random points as `trials` allow, each measured `repeats` times; the best mean wins.
/// Blocks share nothing with it: the peer has less noise to cope with.
pub fn simulate_random(surface: &Surface, trials: u32, repeats: u32, seed: u64) -> Played {
    let quiet = Surface { block_cv: 0.0, ..surface.clone() };
    let mut random = Noise::new(seed ^ 0xACE5);
    let points = random_points(surface, (trials / repeats.max(1)).max(1), &mut random);
    let mut totals = Totals::new();
    take(&quiet, &points, repeats, &mut totals, &mut random);
    Played::new(surface, best(&totals, &points), points.len() as u32 * repeats)
}

/// Plays successive halving (Jamieson and Talwalkar, 2016): random points, each round with the same number of trials;
/// the better half, by the mean of all trials, is measured again.
pub fn simulate_halving(surface: &Surface, trials: u32, repeats: u32, seed: u64) -> Played {
    let quiet = Surface { block_cv: 0.0, ..surface.clone() };
    let mut random = Noise::new(seed ^ 0x4A1F);
    // Points by which rounds of `points · repeats` trials use up the trials.
    let size = |points: u32| points * repeats * (32 - points.leading_zeros());
    let count = (1..=trials).take_while(|points| size(*points) <= trials).last().unwrap_or(1);
    let mut points = random_points(surface, count, &mut random);
    let (mut totals, mut taken, mut each) = (Totals::new(), 0, repeats.max(1));
    loop {
        take(&quiet, &points, each, &mut totals, &mut random);
        taken += points.len() as u32 * each;
        if points.len() == 1 {
            return Played::new(surface, points.remove(0), taken);
        }
        points.sort_by(|a, b| mean(&totals, b).total_cmp(&mean(&totals, a)));
        points.truncate(points.len().div_ceil(2));
        each *= 2;
    }
}

/// Sums of a point's values and guard, and how many trials there were.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    value_log: f64,
    guard_log: f64,
    trials: f64,
}

type Totals = BTreeMap<Point, Total>;

fn take(surface: &Surface, points: &[Point], repeats: u32, totals: &mut Totals, random: &mut Noise) {
    for _ in 0..repeats {
        for (point, seen) in surface.measure(points, random) {
            let total = totals.entry(point).or_default();
            total.trials += 1.0;
            total.value_log += seen.value_log.unwrap_or(f64::NEG_INFINITY);
            total.guard_log += seen.guards_log.iter().flatten().sum::<f64>();
        }
    }
}

/// The mean of a point; a point that fails, or whose guard looks worse than allowed, is out.
fn mean(totals: &Totals, point: &Point) -> f64 {
    let kept = totals.get(point).filter(|t| point.is_default() || t.guard_log <= GUARD_LOG * t.trials);
    kept.map_or(f64::NEG_INFINITY, |t| t.value_log / t.trials)
}

fn best(totals: &Totals, points: &[Point]) -> Point {
    let best = points.iter().max_by(|a, b| mean(totals, a).total_cmp(&mean(totals, b)));
    best.cloned().unwrap_or_else(|| Point::default_of(0))
}
