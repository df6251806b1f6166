//! Whole searches in a made-up world, for calibration.

use super::{Bisection, Candidates, Finding, Next, Options, TwoSteps};
use crate::NoEstimate;
use crate::random::Noise;

/// The shape of the noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tail {
    /// Normal.
    Normal,
    /// Student's t with `degrees` degrees of freedom, at least 3, scaled to the wanted spread.
    StudentT {
        /// Degrees of freedom.
        df: u32,
    },
    /// Normal, and now and then a trial in which something else ran.
    Outliers {
        /// The share of such trials.
        share: f64,
        /// Their deviation over the usual one; always upwards.
        times: f64,
    },
}

/// A made-up history.
#[derive(Debug, Clone, PartialEq)]
pub struct World {
    /// The candidates; the culprit is drawn from `1..n`, each equally likely.
    pub candidates: Candidates,
    /// The step as a share (0.03 = up by 3 %, −0.03 = down by 3 %); 0 for none.
    pub step: f64,
    /// Another step as a share, at another candidate; 0 for none.
    pub second: f64,
    /// Standard deviation of the logarithm of trials of one build.
    pub cv: f64,
    /// Standard deviation of the logarithm between builds.
    pub build_cv: f64,
    /// The shape of the noise of trials.
    pub tail: Tail,
    /// The share of candidates, ends aside, that cannot be built.
    pub skipped_share: f64,
    /// By how much the logarithm grows from trial to trial.
    pub drift: f64,
}

impl World {
    /// `n` candidates that cost the same and all build, normal noise.
    pub fn new(n: usize, step: f64, cv: f64) -> Self {
        let candidates = Candidates::alike(n);
        World { candidates, step, second: 0.0, cv, build_cv: 0.0, tail: Tail::Normal, skipped_share: 0.0, drift: 0.0 }
    }
}

/// How a simulated search ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The true culprit; `None` when there is no step.
    pub culprit: Option<usize>,
    /// The candidate of the other step.
    pub second: Option<usize>,
    /// How the search ended.
    pub end: Next,
    /// True if that is right: a culprit is among the named, or there is none and none was named.
    pub found: bool,
    /// True if a commit was named that was not the culprit.
    pub false_accusation: bool,
    /// What was said of a second step.
    pub two_steps: Option<TwoSteps>,
    /// Trials taken.
    pub trials: usize,
    /// Their cost in seconds.
    pub cost_s: f64,
}

/// A history of a world, whose trials are drawn as they are asked for.
#[derive(Debug)]
pub struct History<'a> {
    world: &'a World,
    random: Noise,
    builds: Vec<Option<f64>>,
    culprit: Option<usize>,
    second: Option<usize>,
    trials: usize,
}

impl<'a> History<'a> {
    /// The culprit is drawn first, so that the same seed has the same one in every kind of search.
    pub fn new(world: &'a World, seed: u64) -> Self {
        let mut dice = History {
            world,
            random: Noise::new(seed),
            builds: vec![None; world.candidates.n],
            culprit: None,
            second: None,
            trials: 0,
        };
        let mut place = || 1 + (dice.random.uniform() * (world.candidates.n.saturating_sub(1)) as f64) as usize;
        let culprit = place();
        if world.second != 0.0 {
            dice.second = (0..1000).map(|_| place()).find(|other| *other != culprit);
        }
        dice.culprit = (world.step != 0.0).then_some(culprit);
        dice
    }

    fn is_culprit(&self, candidate: usize) -> bool {
        [self.culprit, self.second].contains(&Some(candidate))
    }

    /// The candidate that brought the step.
    pub fn culprit(&self) -> Option<usize> {
        self.culprit
    }

    fn noise(&mut self) -> f64 {
        match self.world.tail {
            Tail::Normal => self.random.normal(),
            Tail::StudentT { df } => {
                let df = df.clamp(3, 1000);
                let normal = self.random.normal();
                let squares: f64 = (0..df).map(|_| self.random.normal().powi(2)).sum();
                normal * (f64::from(df - 2) / squares).sqrt()
            }
            Tail::Outliers { share, times } => {
                let normal = self.random.normal();
                if self.random.uniform() < share { times * normal.abs() } else { normal }
            }
        }
    }

    /// One more trial of a candidate: the logarithm of its value.
    pub fn log_value(&mut self, candidate: usize) -> f64 {
        let world = self.world;
        let build = match self.builds[candidate] {
            Some(build) => build,
            None => world.build_cv * self.random.normal(),
        };
        self.builds[candidate] = Some(build);
        let step_at = |place: Option<usize>, step: f64| match place {
            Some(place) if candidate >= place => step.ln_1p(),
            _ => 0.0,
        };
        let step = step_at(self.culprit, world.step) + step_at(self.second, world.second);
        self.trials += 1;
        let drift = world.drift * self.trials as f64;
        1000.0_f64.ln() + step + build + drift + world.cv * self.noise()
    }
}

/// Plays one search with [`Bisection`].
///
/// # Errors
/// Candidates or options that [`Bisection::new`] refuses, and a world whose values have no logarithm.
pub fn simulate_search(world: &World, seed: u64, options: &Options) -> Result<Outcome, NoEstimate> {
    let mut search = Bisection::new(world.candidates.clone(), *options)?;
    let mut dice = History::new(world, seed);
    for candidate in 1..world.candidates.n - 1 {
        if world.skipped_share > 0.0 && dice.random.uniform() < world.skipped_share {
            search.skip(candidate)?;
        }
    }
    let end = loop {
        match search.next() {
            Next::Measure { candidate, .. } => search.observe(candidate, dice.log_value(candidate).exp())?,
            end => break end,
        }
    };
    let two_steps = match &end {
        // As after a search on a host: fresh trials of the culprit and the one before it.
        Next::Done(Finding::Culprit { candidates, .. }) => {
            let (before, culprit) = (candidates[0] - 1, candidates[candidates.len() - 1]);
            let pair = |_| (dice.log_value(before).exp(), dice.log_value(culprit).exp());
            let fresh: Vec<(f64, f64)> = (0..FRESH).map(pair).collect();
            search.two_steps_with((before, culprit), &fresh)?
        }
        _ => search.two_steps(),
    };
    Ok(Outcome { two_steps, ..outcome(&dice, end, &search) })
}

/// Fresh blocks after a search.
const FRESH: usize = 20;

fn outcome(dice: &History<'_>, end: Next, search: &Bisection) -> Outcome {
    let named = match &end {
        Next::Done(Finding::Culprit { candidates, .. }) => Some(candidates),
        _ => None,
    };
    let hit = named.is_some_and(|named| named.iter().any(|c| dice.is_culprit(*c)));
    let none = dice.culprit.is_none() && matches!(end, Next::Done(Finding::NoStep { .. }));
    Outcome {
        culprit: dice.culprit,
        second: dice.second,
        found: hit || none,
        false_accusation: named.is_some() && !hit,
        two_steps: None,
        trials: search.trials(),
        cost_s: search.spent_s(),
        end,
    }
}

/// Plays one plain binary search, the peer that [`Bisection`] is measured against.
///
/// Both ends and each candidate in the middle are measured `repeats` times; the mean of the middle is
/// taken for whichever end's mean it is nearer to. It always names someone.
///
/// # Errors
/// Fewer than two candidates, no repeats, or costs that [`Bisection::new`] refuses.
pub fn simulate_binary_search(world: &World, seed: u64, repeats: u32) -> Result<Outcome, NoEstimate> {
    if repeats == 0 {
        return Err(NoEstimate::new("no repeats, no mean"));
    }
    // Only its books are used: what was built, and what it cost.
    let mut books = Bisection::new(world.candidates.clone(), Options::default())?;
    let mut dice = History::new(world, seed);
    let mut mean = |candidate: usize, dice: &mut History<'_>| -> Result<f64, NoEstimate> {
        let mut sum = 0.0;
        for _ in 0..repeats {
            let log = dice.log_value(candidate);
            books.observe(candidate, log.exp())?;
            sum += log;
        }
        Ok(sum / f64::from(repeats))
    };
    let (mut good, mut bad) = (0, world.candidates.n - 1);
    let (level_good, level_bad) = (mean(good, &mut dice)?, mean(bad, &mut dice)?);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        let level = mean(middle, &mut dice)?;
        if (level - level_good).abs() <= (level - level_bad).abs() { good = middle } else { bad = middle }
    }
    let found = dice.is_culprit(bad);
    let step_ratio = (level_bad - level_good).exp();
    let end = Next::Done(Finding::Culprit { candidates: vec![bad], probability: f64::NAN, step_ratio });
    let (trials, cost_s) = (books.trials(), books.spent_s());
    let (culprit, second) = (dice.culprit, dice.second);
    Ok(Outcome { culprit, second, end, found, false_accusation: !found, two_steps: None, trials, cost_s })
}
