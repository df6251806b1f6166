//! Cliffs: a load beyond which values are abruptly worse than any smooth law has them.

use super::least_squares::{Minimum, Problem, dot, inverse_normal};
use super::repairman::{MAX_CLIENTS, Repairman};
use super::{Bounds, Model, Usl};
use crate::pieces::{count, log, mean};
use crate::random::Noise;
use crate::verdict::ALPHA;
use crate::{CONFIDENCE, NoEstimate, students_t};
use std::collections::{BTreeMap, BTreeSet};

/// Simulated data sets behind a p value: p is known to ±0.7 points where it is 5 %.
const SIMULATIONS: u32 = 999;

/// As soon as more simulated values than this lie above the observed one, p is above 5 % anyway.
const ENOUGH_ABOVE: u32 = 50;

/// With fewer loads a bend of a smooth curve cannot be distinguished from a break.
const MIN_LOADS: usize = 6;

/// How much worse a place may fit than the best one and still belong to the interval, in residual
/// variances: the 95 % point of the likelihood ratio of a change's place (Hansen 2000).
const PLACE_95: f64 = 7.35;

/// Places of a bend tried between two neighbouring loads.
const BENDS_PER_GAP: u32 = 2;

/// A value measured at a load in a block. Larger is better: give one over the latency for latencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CliffPoint {
    /// Clients, threads or CPUs; above zero.
    pub load: f64,
    /// The value, above zero.
    pub value: f64,
    /// The block. Several values of one load in one block are averaged first.
    pub block: u32,
}

/// What breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CliffKind {
    /// The level drops between two neighbouring loads.
    Drop,
    /// The slope on the log-log scale breaks, and values fall from there on.
    Bend,
}

/// Where values get abruptly worse.
#[derive(Debug, Clone, PartialEq)]
pub struct Cliff {
    /// What breaks.
    pub kind: CliffKind,
    /// The load of the break; for a drop the geometric middle of the two loads that it lies between.
    pub load: f64,
    /// Lower end of the 95 % interval of the place: a measured load for a drop.
    pub low: f64,
    /// Upper end of the 95 % interval of the place.
    pub high: f64,
    /// The share lost against the smooth continuation of the curve (0.3 = 30 %): just beyond a drop,
    /// at the largest load for a bend. The interval is a t interval with the place taken as known.
    pub loss: Bounds,
    /// d log value / d log load just before the break: 1 is linear scaling, 0 a level.
    pub slope_before: f64,
    /// The same just beyond the break.
    pub slope_after: f64,
}

/// What the search found.
#[derive(Debug, Clone, PartialEq)]
pub struct CliffSearch {
    /// The cliff; `None` when there is none to be seen.
    pub cliff: Option<Cliff>,
    /// p of "the curve is smooth".
    pub p: f64,
    /// The smooth law that fits better without a break, USL or machine repairman.
    pub smooth: Model,
    /// Spread of a single value about the curve, as a share.
    pub spread: f64,
    /// Different loads.
    pub loads: u32,
    /// Blocks.
    pub blocks: u32,
    /// Why there is a cliff or none, in a few words.
    pub reason: String,
}

/// A table of log values by load and block.
struct Cells {
    loads: Vec<f64>,
    logs: Vec<f64>,
    values: Vec<f64>,
    load_of: Vec<usize>,
    block_of: Vec<usize>,
    blocks: usize,
}

impl Cells {
    fn new(points: &[CliffPoint]) -> Result<Cells, NoEstimate> {
        let mut cells: BTreeMap<(u64, u32), Vec<f64>> = BTreeMap::new();
        for p in points {
            if !(p.load.is_finite() && (1e-6..=1e9).contains(&p.load)) {
                return Err(NoEstimate::new("a load is not a number between a millionth and a billion"));
            }
            // Bits of positive numbers are in the order of the numbers.
            cells.entry((p.load.to_bits(), p.block)).or_default().push(log(p.value)?);
        }
        let loads: BTreeSet<u64> = cells.keys().map(|(l, _)| *l).collect();
        let blocks: BTreeSet<u32> = cells.keys().map(|(_, b)| *b).collect();
        if loads.len() < MIN_LOADS {
            return Err(NoEstimate::new(format!(
                "{} different loads are too few: at least {MIN_LOADS} are needed to distinguish a cliff from a curve",
                loads.len()
            )));
        }
        // Level of each block, two coefficients of the law, one of the quadratic, one of the break.
        if cells.len() < blocks.len() + 4 + 2 {
            return Err(NoEstimate::new("too few values for the noise to be known"));
        }
        let loads: Vec<u64> = loads.into_iter().collect();
        let blocks: Vec<u32> = blocks.into_iter().collect();
        let numbers: Vec<f64> = loads.iter().map(|b| f64::from_bits(*b)).collect();
        Ok(Cells {
            logs: numbers.iter().map(|l| l.ln()).collect(),
            loads: numbers,
            values: cells.values().map(|v| mean(v)).collect(),
            load_of: cells.keys().map(|(l, _)| loads.binary_search(l).unwrap_or(0)).collect(),
            block_of: cells.keys().map(|(_, b)| blocks.binary_search(b).unwrap_or(0)).collect(),
            blocks: blocks.len(),
        })
    }

    fn n(&self) -> usize {
        self.values.len()
    }

    /// One value for each load, spread over the cells.
    fn spread_out(&self, by_load: &[f64]) -> Vec<f64> {
        self.load_of.iter().map(|l| by_load[*l]).collect()
    }

    /// Takes the mean of each block out: each block has its own level.
    fn centre(&self, cells: &mut [f64]) {
        let mut sums = vec![(0.0, 0.0); self.blocks];
        for (v, b) in cells.iter().zip(&self.block_of) {
            sums[*b].0 += v;
            sums[*b].1 += 1.0;
        }
        for (v, b) in cells.iter_mut().zip(&self.block_of) {
            *v -= sums[*b].0 / sums[*b].1;
        }
    }

    /// The log of a smooth law at the loads, up to a constant.
    fn law(&self, model: Model, shape: &[f64]) -> Option<Vec<f64>> {
        let values: Vec<f64> = match model {
            Model::Repairman => Repairman { service_s: 1.0, think_s: shape[0] }.throughputs(&self.loads)?,
            Model::Usl | Model::Amdahl => {
                let usl = Usl { alpha: shape[0], beta: shape[1], gamma: 1.0 };
                self.loads.iter().map(|n| usl.throughput(*n)).collect::<Option<_>>()?
            }
        };
        values.iter().map(|v| Some(v.ln()).filter(|l| l.is_finite())).collect()
    }

    /// (log load − middle)²: room for smooth curves that are not quite the law.
    fn quadratic(&self) -> Vec<f64> {
        let middle = mean(&self.logs);
        self.logs.iter().map(|l| (l - middle).powi(2)).collect()
    }

    /// All places of a break.
    fn breaks(&self) -> Vec<Break> {
        let last = self.logs.len() - 1;
        let mut breaks = Vec::new();
        for gap in 0..last {
            let (low, high) = (self.logs[gap], self.logs[gap + 1]);
            breaks.push(Break { kind: CliffKind::Drop, at: low, low, high });
            // A bend needs a slope on both sides, hence two loads.
            if gap >= 1 && gap < last - 1 {
                let step = (high - low) / f64::from(BENDS_PER_GAP);
                for i in 0..BENDS_PER_GAP {
                    let at = low + step * f64::from(i);
                    breaks.push(Break { kind: CliffKind::Bend, at, low: at - step, high: at + step });
                }
            }
        }
        breaks
    }
}

/// A place of a break on the log scale.
#[derive(Debug, Clone, Copy)]
struct Break {
    kind: CliffKind,
    /// The bend itself; the last load before a drop.
    at: f64,
    /// What the place stands for: a drop lies anywhere between two loads, a bend up to the next place tried.
    low: f64,
    high: f64,
}

impl Break {
    /// What a loss of one does to the log values: minus one beyond a drop, minus the distance beyond a bend.
    fn column(&self, logs: &[f64]) -> Vec<f64> {
        let of = |l: &f64| match self.kind {
            CliffKind::Drop if *l > self.at => -1.0,
            CliffKind::Drop => 0.0,
            CliffKind::Bend => -(l - self.at).max(0.0),
        };
        logs.iter().map(of).collect()
    }
}

/// A smooth law, with or without more columns, fitted to the cells.
fn fit_law(cells: &Cells, model: Model, columns: &[Vec<f64>], signed: &[bool], starts: &[Vec<f64>]) -> Option<Minimum> {
    let shapes = if model == Model::Repairman { 1 } else { 2 };
    let residuals = |at: &[f64], into: &mut Vec<f64>| {
        let Some(mut curve) = cells.law(model, &at[..shapes]) else { return false };
        for (column, size) in columns.iter().zip(&at[shapes..]) {
            curve.iter_mut().zip(column).for_each(|(c, v)| *c += size * v);
        }
        into.clear();
        into.extend(cells.values.iter().zip(&cells.load_of).map(|(y, l)| curve[*l] - y));
        cells.centre(into);
        true
    };
    let most = cells.loads.last().copied().unwrap_or(1.0).max(1.0);
    let (mut lower, mut scale) = match model {
        Model::Repairman => (vec![0.0], vec![1e-2]),
        // A little below zero too: a bound would make smooth curves at it look broken.
        Model::Usl | Model::Amdahl => (vec![-0.5 / most, -0.25 / most / most], vec![0.1 / most, 0.1 / most / most]),
    };
    lower.extend(signed.iter().map(|s| if *s { 0.0 } else { f64::NEG_INFINITY }));
    scale.extend(columns.iter().map(|_| 1e-3));
    let problem = Problem { residuals: &residuals, lower: &lower, scale: &scale, tolerance: 1e-8 };
    let mut best: Option<Minimum> = None;
    for start in starts {
        let mut start = start.clone();
        start.resize(shapes + columns.len(), 0.0);
        if let Some(m) = problem.minimise(&start)
            && best.as_ref().is_none_or(|b| m.rss < b.rss)
        {
            best = Some(m);
        }
    }
    best
}

fn starts(cells: &Cells, model: Model) -> Vec<Vec<f64>> {
    let most = cells.loads.last().copied().unwrap_or(1.0).max(1.0);
    match model {
        Model::Repairman => [0.05, 0.5].map(|r| vec![r * most]).to_vec(),
        Model::Usl | Model::Amdahl => [(0.1 / most, 0.5 / most / most), (3.0 / most, 3.0 / most / most), (0.1, 0.0)]
            .map(|(a, b)| vec![a, b])
            .to_vec(),
    }
}

/// A smooth law with room for what it misses, fitted without a break and with one at each place.
struct Law {
    model: Model,
    smooth: Minimum,
    /// The fit without a break at the loads, up to a constant.
    curve: Vec<f64>,
    broken: Vec<(Break, Minimum)>,
}

impl Law {
    fn fit(cells: &Cells, model: Model) -> Option<Law> {
        if model == Model::Repairman && cells.loads.last().is_some_and(|l| *l > MAX_CLIENTS) {
            return None;
        }
        let quadratic = cells.quadratic();
        let mut starts = starts(cells, model);
        let smooth = fit_law(cells, model, std::slice::from_ref(&quadratic), &[false], &starts)?;
        let shapes = smooth.at.len() - 1;
        let mut curve = cells.law(model, &smooth.at[..shapes])?;
        curve.iter_mut().zip(&quadratic).for_each(|(c, q)| *c += smooth.at[shapes] * q);
        // The curve without the break is near, unless the break bent it.
        starts.truncate(2);
        starts[0] = smooth.at.clone();
        let with = |b: Break| {
            let columns = [quadratic.clone(), b.column(&cells.logs)];
            Some((b, fit_law(cells, model, &columns, &[false, true], &starts)?))
        };
        let broken = cells.breaks().into_iter().filter_map(with).collect();
        Some(Law { model, smooth, curve, broken })
    }

    /// The break that fits best.
    fn best(&self) -> Option<&(Break, Minimum)> {
        self.broken.iter().min_by(|a, b| a.1.rss.total_cmp(&b.1.rss))
    }
}

/// An orthonormal basis of some vectors; what depends on those before it is left out.
fn basis(vectors: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for vector in vectors {
        if let Some(unit) = unit_beside(&basis, &vector, 1e-8) {
            basis.push(unit);
        }
    }
    basis
}

/// What a basis leaves of a vector.
fn project_out(basis: &[Vec<f64>], vector: &mut [f64]) {
    for unit in basis {
        let share = dot(unit, vector);
        vector.iter_mut().zip(unit).for_each(|(v, u)| *v -= share * u);
    }
}

/// The part of a vector that a basis does not hold, of length one; `None` when it is a smaller share than `least`.
fn unit_beside(basis: &[Vec<f64>], vector: &[f64], least: f64) -> Option<Vec<f64>> {
    let before = dot(vector, vector).sqrt();
    let mut rest = vector.to_vec();
    // Twice, because once leaves rounding errors as large as the remainder.
    project_out(basis, &mut rest);
    project_out(basis, &mut rest);
    let size = dot(&rest, &rest).sqrt();
    if !(size.is_finite() && size > least * before) {
        return None;
    }
    rest.iter_mut().for_each(|v| *v /= size);
    Some(rest)
}

/// One law linearised at its smooth fit, for simulated data that lie near to it.
struct Scan {
    smooth: Vec<Vec<f64>>,
    losses: Vec<Vec<f64>>,
    /// How far the curve that is simulated from lies above the fit of this law, in each cell.
    offset: Vec<f64>,
}

impl Scan {
    fn new(cells: &Cells, law: &Law, simulated: &[f64]) -> Scan {
        let mut vectors: Vec<Vec<f64>> = (0..cells.blocks)
            .map(|b| cells.block_of.iter().map(|c| if *c == b { 1.0 } else { 0.0 }).collect())
            .collect();
        vectors.extend(law.smooth.jacobian.iter().cloned());
        let smooth = basis(vectors);
        let columns = cells.breaks().into_iter().map(|b| cells.spread_out(&b.column(&cells.logs)));
        let losses: Vec<Vec<f64>> = columns.filter_map(|c| unit_beside(&smooth, &c, 1e-4)).collect();
        let above: Vec<f64> = simulated.iter().zip(&law.curve).map(|(s, c)| s - c).collect();
        Scan { smooth, losses, offset: cells.spread_out(&above) }
    }

    /// Sums of squares without a break and with the best one.
    fn rss(&self, noise: &[f64]) -> (f64, f64) {
        let mut residuals: Vec<f64> = noise.iter().zip(&self.offset).map(|(e, o)| e + o).collect();
        project_out(&self.smooth, &mut residuals);
        let smooth = dot(&residuals, &residuals);
        let largest = self.losses.iter().map(|l| dot(l, &residuals)).fold(0.0, f64::max);
        (smooth, (smooth - largest * largest).max(1e-12 * smooth))
    }
}

/// Noise as it is in the data: what the means of loads and blocks leave, each with a random sign, so
/// that loads that scatter more do so in the simulation too (wild bootstrap, Wu 1986). With too few
/// values for that, normal noise.
struct NoiseLike {
    residuals: Option<Vec<f64>>,
    n: usize,
    spread: f64,
}

impl NoiseLike {
    fn new(cells: &Cells, spread: f64) -> NoiseLike {
        let dummies = |of: &[usize], how_many: usize| -> Vec<Vec<f64>> {
            (0..how_many).map(|i| of.iter().map(|c| if *c == i { 1.0 } else { 0.0 }).collect()).collect()
        };
        let mut vectors = dummies(&cells.block_of, cells.blocks);
        vectors.extend(dummies(&cells.load_of, cells.loads.len()));
        let basis = basis(vectors);
        let mut residuals = cells.values.clone();
        project_out(&basis, &mut residuals);
        let df = cells.n().saturating_sub(basis.len());
        let size = dot(&residuals, &residuals);
        // As large as errors are, not as what the means leave of them.
        let scale = (cells.n() as f64 / df.max(1) as f64).sqrt();
        residuals.iter_mut().for_each(|r| *r *= scale);
        NoiseLike {
            residuals: (df >= 2 * cells.loads.len() && size > 1e-24).then_some(residuals),
            n: cells.n(),
            spread,
        }
    }

    fn draw(&self, noise: &mut Noise) -> Vec<f64> {
        match &self.residuals {
            Some(residuals) => residuals.iter().map(|r| r * noise.sign()).collect(),
            None => (0..self.n).map(|_| self.spread * noise.normal()).collect(),
        }
    }
}

/// By how much the best break of any law beats the best smooth law, in residual sums of squares.
fn gain(rss: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (smooth, broken) = rss.fold((f64::INFINITY, f64::INFINITY), |(a, b), (s, k)| (a.min(s), b.min(k)));
    (smooth - broken) / broken
}

/// p of the gain that a break brings, against the gain in data simulated from the best smooth law.
fn p_of_smooth(cells: &Cells, laws: &[Law], simulated: &Law, like: &NoiseLike, seed: u64) -> f64 {
    let rss = |law: &Law| (law.smooth.rss, law.best().map_or(law.smooth.rss, |(_, m)| m.rss));
    let observed = gain(laws.iter().map(rss));
    let scans: Vec<Scan> = laws.iter().map(|law| Scan::new(cells, law, &simulated.curve)).collect();
    let mut noise = Noise::new(seed);
    let mut above = 0_u32;
    for done in 1..=SIMULATIONS {
        let drawn = like.draw(&mut noise);
        above += u32::from(gain(scans.iter().map(|s| s.rss(&drawn))) >= observed);
        // Far from small, so it need not be known better (Besag and Clifford 1991).
        if above > ENOUGH_ABOVE {
            return f64::from(above) / f64::from(done);
        }
    }
    f64::from(above + 1) / f64::from(SIMULATIONS + 1)
}

/// Looks for a cliff: a load beyond which values are abruptly worse than a smooth law has them.
///
/// Smooth: the better one of USL and machine repairman on the log scale, with a level for each block
/// and a quadratic in log load for what those laws miss. With a cliff: that and a drop of the level
/// between two neighbouring loads, or a downward break of the slope, wherever it fits best. p is that
/// of the largest F of all places (Davies 1987; Andrews 1993), by simulation from the smooth curve.
///
/// # Errors
/// With values that have no logarithm, fewer than 6 loads, or no noise at all.
pub fn find_cliff(points: &[CliffPoint], seed: u64) -> Result<CliffSearch, NoEstimate> {
    let cells = Cells::new(points)?;
    let laws: Vec<Law> = [Model::Usl, Model::Repairman].iter().filter_map(|m| Law::fit(&cells, *m)).collect();
    let unfit = || NoEstimate::new("no smooth law has values at these loads");
    let best = laws.iter().min_by(|a, b| a.smooth.rss.total_cmp(&b.smooth.rss)).ok_or_else(unfit)?;
    if best.smooth.rss <= 1e-20 * cells.n() as f64 {
        return Err(NoEstimate::new("the values lie on a smooth curve exactly, so there is no noise to test against"));
    }
    let (cliff, spread) = place(&cells, &laws)?;
    let like = NoiseLike::new(&cells, spread);
    let p = p_of_smooth(&cells, &laws, best, &like, seed);
    let df = cells.n() as f64 - cells.blocks as f64 - best.smooth.at.len() as f64;
    let mut search = CliffSearch {
        cliff: None,
        p,
        smooth: best.model,
        spread: (best.smooth.rss / df.max(1.0)).sqrt(),
        loads: count(cells.loads.len()),
        blocks: count(cells.blocks),
        reason: format!("a smooth curve ({}) describes the values", best.model.name()),
    };
    if p > ALPHA {
        return Ok(search);
    }
    search.spread = spread;
    if cliff.kind == CliffKind::Bend && cliff.slope_after >= 0.0 {
        search.reason = "growth ends abruptly, but values do not fall".to_owned();
    } else {
        search.reason = "no law without a break describes the values".to_owned();
        search.cliff = Some(cliff);
    }
    Ok(search)
}

/// The place of the break that fits best, and the spread about that fit.
fn place(cells: &Cells, laws: &[Law]) -> Result<(Cliff, f64), NoEstimate> {
    let none = || NoEstimate::new("no break can be fitted to these values");
    let tried = || laws.iter().flat_map(|law| law.broken.iter().map(|(b, m)| (law.model, b, m)));
    let (model, best, found) = tried().min_by(|a, b| a.2.rss.total_cmp(&b.2.rss)).ok_or_else(none)?;
    let df = (cells.n() - cells.blocks) as f64 - found.at.len() as f64;
    let variance = found.rss / df.max(1.0);
    let within = tried().filter(|(_, _, m)| m.rss <= found.rss + PLACE_95 * variance);
    let (low, high) = within.fold((best.low, best.high), |(low, high), (_, b, _)| (low.min(b.low), high.max(b.high)));
    let size = found.at.last().copied().unwrap_or(0.0);
    let reach = match best.kind {
        CliffKind::Drop => 1.0,
        CliffKind::Bend => cells.logs.last().copied().unwrap_or(best.at) - best.at,
    };
    let loss = |size: f64| -(-size * reach).exp_m1();
    let half = inverse_normal(&found.jacobian)
        .and_then(|inverse| inverse.last().and_then(|row| row.last()).copied())
        .zip(students_t::quantile(0.5 + CONFIDENCE / 2.0, df))
        .map(|(v, t)| t * (v * variance).sqrt());
    let end = |sign: f64| half.map(|h| loss(size + sign * h)).filter(|l| l.is_finite());
    let (slope_before, slope_after) = slopes(cells, model, *best, found).ok_or_else(none)?;
    let middle = if best.kind == CliffKind::Drop { f64::midpoint(best.low, best.high) } else { best.at };
    let cliff = Cliff {
        kind: best.kind,
        load: middle.exp(),
        low: low.exp(),
        high: high.exp(),
        loss: Bounds { value: loss(size), low: end(-1.0), high: end(1.0), method: "t, the place taken as known" },
        slope_before,
        slope_after,
    };
    Ok((cliff, variance.sqrt()))
}

/// Slopes of the fitted curve on both sides of a break: over the last step before and the first one
/// beyond for a drop, at the break itself for a bend.
fn slopes(cells: &Cells, model: Model, at: Break, found: &Minimum) -> Option<(f64, f64)> {
    let shapes = found.at.len() - 2;
    let mut curve = cells.law(model, &found.at[..shapes])?;
    let bend = if at.kind == CliffKind::Bend { found.at[shapes + 1] } else { 0.0 };
    let quadratic = cells.quadratic();
    curve.iter_mut().zip(&quadratic).for_each(|(c, q)| *c += found.at[shapes] * q);
    let last = cells.logs.len() - 1;
    let slope = |i: usize| (curve[i + 1] - curve[i]) / (cells.logs[i + 1] - cells.logs[i]);
    let before = cells.logs.iter().rposition(|l| *l <= at.at).unwrap_or(0).min(last - 1);
    let (a, b) = match at.kind {
        CliffKind::Drop => (slope(before.saturating_sub(1)), slope((before + 1).min(last - 1))),
        CliffKind::Bend => (slope(before), slope(before) - bend),
    };
    (a.is_finite() && b.is_finite()).then_some((a, b))
}
