//! Which of many ordered candidates brought a step into a noisy metric, and what to measure next to find out.
//!
//! Candidates `0..n` stand in order; candidate 0 is the known good end and the last one the known
//! bad end. A culprit `c` in `1..n` shifts the logarithm of the metric by an unknown δ: candidates
//! before it have the mean μ, it and all later ones μ + δ. The noise σ is unknown as well. Beside
//! the culprits stands the hypothesis that there is no step at all.
//!
//! The posterior is in closed form, up to the weights that keep outliers down (`posterior`). The
//! next trial is the one with the largest expected information on the culprit for its cost
//! (`choose`), as in probabilistic bisection (Horstein, "Sequential transmission using noiseless
//! feedback", 1963; Waeber, Frazier, Henderson, "Bisection search with noisy responses", 2013).
//! `simulate` plays whole searches, for calibration.

mod choose;
mod outliers;
mod posterior;
mod simulate;
mod two_steps;

pub use simulate::{History, Outcome, Tail, World, simulate_binary_search, simulate_search};

use crate::NoEstimate;
use crate::pieces::log;
use posterior::Posterior;
pub use two_steps::TwoSteps;

/// More candidates than this are refused: a history is shorter.
pub const MOST_CANDIDATES: usize = 1_000_000;

/// Less information than this in every possible trial, in bits, and the search is stuck.
const LEAST_INFORMATION_BITS: f64 = 1e-7;

/// What a trial of a candidate costs. All in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialCost {
    /// Building it, paid once for each candidate.
    pub build_s: f64,
    /// Booting or starting it, paid whenever the trial before was one of another candidate.
    pub boot_s: f64,
    /// One trial; above zero.
    pub run_s: f64,
}

/// The costs of all candidates.
#[derive(Debug, Clone, PartialEq)]
pub enum Costs {
    /// Each candidate costs the same.
    Same(TrialCost),
    /// One for each candidate, in order.
    Each(Vec<TrialCost>),
}

/// What is searched.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidates {
    /// How many there are, both ends included: 2 to [`MOST_CANDIDATES`].
    pub n: usize,
    /// How likely each is the culprit before anything is measured, in any unit; one for each candidate.
    /// The weight of candidate 0, the good end, is not used. `None`: all the same.
    pub prior_weights: Option<Vec<f64>>,
    /// What trials cost.
    pub costs: Costs,
}

impl Candidates {
    /// `n` candidates, equally likely, whose trials all cost the same and need neither build nor boot.
    pub fn alike(n: usize) -> Self {
        let cost = TrialCost { build_s: 0.0, boot_s: 0.0, run_s: 1.0 };
        Candidates { n, prior_weights: None, costs: Costs::Same(cost) }
    }
}

/// Which steps are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Both.
    Any,
    /// The metric became larger.
    Up,
    /// The metric became smaller.
    Down,
}

/// How a search goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The probability at which an answer is given, above 0.5 and below 1.
    pub confidence: f64,
    /// Which steps are looked for; one the other way is reported as such.
    pub direction: Direction,
    /// The probability, before anything is measured, that there is no step between the ends; above 0 and below 1.
    /// It bounds false accusations: where there is no step, someone is named in at most about
    /// `(1 − p) / p · (1 − confidence) / confidence` of all searches, however long they go on
    /// (Ville's inequality), which is 5.3 % for one half at 95 %. Smaller values save a few trials
    /// where there is a step, and cost many where there is none.
    pub no_step_prior: f64,
    /// The smallest step that is looked for, as a share (0.01 = 1 %); 0 for all. A real step far
    /// below it ends as "no step".
    pub min_step: f64,
    /// A guess at the coefficient of variation of trials of one build. It weighs as much as two trials.
    pub expected_cv: f64,
    /// The variance between builds (or boots) of the same candidate over the variance of trials of one
    /// build. Above zero, repeated trials of one build are not independent. `None`: learnt from the trials, as that between
    /// sessions of one build is.
    pub build_variance_ratio: Option<f64>,
    /// True if the host may drift in a straight line during the search.
    pub may_drift: bool,
    /// Residuals beyond this many σ lose weight, as 1/z² with the excess; `None` takes all noise for normal.
    pub outlier_limit: Option<f64>,
    /// Trials of each end before the search begins, at least 2.
    pub end_trials: u32,
    /// The search gives up after this many trials.
    pub most_trials: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            confidence: 0.95,
            direction: Direction::Any,
            no_step_prior: 0.5,
            min_step: 0.01,
            expected_cv: 0.02,
            build_variance_ratio: None,
            may_drift: true,
            outlier_limit: Some(2.5),
            end_trials: 3,
            most_trials: 1000,
        }
    }
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Measure a candidate once more, then ask again.
    Measure {
        /// The candidate.
        candidate: usize,
        /// How many trials in a row the choice reckons with: paying for a build and a boot is worth
        /// it for this many. Asking again after each is at least as good.
        trials: u32,
        /// The expected information of these trials about the culprit; zero for the first trials of
        /// the ends, which are needed before anything can be inferred.
        expected_information_bits: f64,
        /// What these trials cost.
        cost_s: f64,
    },
    /// The search is over.
    Done(Finding),
    /// More trials would not help, or none are left.
    Undecidable {
        /// Why, in a few words.
        reason: String,
        /// The fewest candidates that hold the culprit with the wanted confidence, given that there is one.
        credible: Vec<usize>,
    },
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// The candidates among which the culprit is: one, or several where those between could not be measured.
    Culprit {
        /// In order; never empty.
        candidates: Vec<usize>,
        /// The posterior probability that it is one of them.
        probability: f64,
        /// The metric after the step over the one before (1.03 = up by 3 %), posterior mean on the log scale.
        step_ratio: f64,
    },
    /// No step of the size looked for lies between the ends.
    NoStep {
        /// The posterior probability.
        probability: f64,
    },
    /// There is a step, in the direction that was not looked for.
    WrongDirection {
        /// The posterior probability.
        probability: f64,
        /// The metric after the step over the one before.
        step_ratio: f64,
    },
}

/// A trial.
#[derive(Debug, Clone, Copy)]
struct Observation {
    candidate: usize,
    /// Trials in a row of one candidate are one session.
    session: usize,
    log_value: f64,
}

/// A search under way.
#[derive(Debug, Clone)]
pub struct Bisection {
    n: usize,
    /// Prior probability that the culprit is one of the candidates 0..=i; 0 at the start, 1 at the end.
    prior_up_to: Vec<f64>,
    costs: Costs,
    options: Options,
    skipped: Vec<bool>,
    /// In the order observed.
    observations: Vec<Observation>,
    /// How many sessions there were.
    sessions: usize,
    built: Vec<bool>,
    /// The candidate that runs now.
    up: Option<usize>,
    spent_s: f64,
}

impl Bisection {
    /// A search in which nothing is measured yet.
    ///
    /// # Errors
    /// Fewer than two candidates or too many; weights or costs that are missing, negative, not
    /// finite, or (weights) all zero; a trial that costs nothing; options out of their range.
    pub fn new(candidates: Candidates, options: Options) -> Result<Self, NoEstimate> {
        let Candidates { n, prior_weights, costs } = candidates;
        match n {
            0 => return Err(NoEstimate::new("there is no candidate")),
            1 => return Err(NoEstimate::new("one candidate only: a good and a bad end are needed")),
            2..=MOST_CANDIDATES => {}
            _ => return Err(NoEstimate::new(format!("more than {MOST_CANDIDATES} candidates"))),
        }
        check_options(&options)?;
        check_costs(&costs, n)?;
        let prior_up_to = prior(prior_weights.as_deref(), n)?;
        Ok(Bisection {
            n,
            prior_up_to,
            costs,
            options,
            skipped: vec![false; n],
            observations: Vec::new(),
            sessions: 0,
            built: vec![false; n],
            up: None,
            spent_s: 0.0,
        })
    }

    /// Takes one trial of a candidate; `value` in the metric's own unit.
    ///
    /// # Errors
    /// A candidate that does not exist or is skipped; a value without logarithm. Nothing is taken then.
    pub fn observe(&mut self, candidate: usize, value: f64) -> Result<(), NoEstimate> {
        self.check(candidate)?;
        if self.skipped[candidate] {
            return Err(NoEstimate::new(format!("candidate {candidate} is skipped")));
        }
        let value = log(value)?;
        self.spent_s += self.cost_s(candidate, 1);
        self.built[candidate] = true;
        self.sessions += usize::from(self.up != Some(candidate));
        self.up = Some(candidate);
        self.observations.push(Observation { candidate, session: self.sessions, log_value: value });
        Ok(())
    }

    /// The candidate that ran last runs no more: the next trial pays for a boot, of whichever it is.
    pub fn end_session(&mut self) {
        self.up = None;
    }

    /// Takes a candidate out of those that can be measured; it may still be the culprit.
    ///
    /// # Errors
    /// A candidate that does not exist, or one of the ends, without which there is no search.
    /// One that was measured keeps its values.
    pub fn skip(&mut self, candidate: usize) -> Result<(), NoEstimate> {
        self.check(candidate)?;
        if candidate == 0 || candidate == self.n - 1 {
            return Err(NoEstimate::new("an end cannot be skipped"));
        }
        self.skipped[candidate] = true;
        Ok(())
    }

    fn check(&self, candidate: usize) -> Result<(), NoEstimate> {
        if candidate < self.n {
            return Ok(());
        }
        Err(NoEstimate::new(format!("candidate {candidate} of {}, counted from 0, does not exist", self.n)))
    }

    /// How many trials were taken.
    pub fn trials(&self) -> usize {
        self.observations.len()
    }

    /// What the trials taken so far cost, in seconds.
    pub fn spent_s(&self) -> f64 {
        self.spent_s
    }

    /// The probability of each candidate to be the culprit (of a step in the wanted direction).
    ///
    /// They sum to one less [`Self::no_step`] and [`Self::wrong_direction`]. Before both ends are measured
    /// this is the prior.
    pub fn posterior(&self) -> Vec<f64> {
        match self.belief() {
            Some(belief) => belief.of_candidates(&self.prior_up_to),
            None => {
                let step = 1.0 - self.options.no_step_prior;
                let before = std::iter::once(0.0).chain(self.prior_up_to.iter().copied());
                self.prior_up_to.iter().zip(before).map(|(to, from)| step * (to - from)).collect()
            }
        }
    }

    /// The probability that there is no step; the prior before both ends are measured.
    pub fn no_step(&self) -> f64 {
        self.belief().map_or(self.options.no_step_prior, |b| b.no_step)
    }

    /// The probability of a step in the direction that is not looked for; zero when both are.
    pub fn wrong_direction(&self) -> f64 {
        self.belief().map_or(0.0, |b| b.wrong_direction())
    }

    /// The level of each candidate as it is believed, in the metric's unit: the mean over all places of the step, on the log
    /// scale. `None` before both ends are measured.
    pub fn levels(&self) -> Option<Vec<f64>> {
        let belief = self.belief()?;
        let origin = self.observations[0].log_value;
        let mut level = belief.no_step * belief.level.mean;
        level += belief.gaps.iter().map(|gap| (gap.probability + gap.wrong) * gap.before.mean).sum::<f64>();
        let mut all = vec![(origin + level).exp()];
        for gap in &belief.gaps {
            let step = (gap.probability + gap.wrong) * (gap.after.mean - gap.before.mean);
            let mass = self.prior_up_to[gap.to] - self.prior_up_to[gap.from];
            for candidate in gap.from + 1..=gap.to {
                let share = self.prior_up_to[candidate] - self.prior_up_to[candidate - 1];
                level += if mass > 0.0 { step * share / mass } else { 0.0 };
                all.push((origin + level).exp());
            }
        }
        Some(all)
    }

    /// What to do next.
    pub fn next(&self) -> Next {
        if let Some(end) = self.end_to_measure() {
            let cost_s = self.cost_s(end, 1);
            return Next::Measure { candidate: end, trials: 1, expected_information_bits: 0.0, cost_s };
        }
        let Some(belief) = self.belief() else {
            return Next::Undecidable { reason: "the values are too far apart".into(), credible: Vec::new() };
        };
        if let Some(finding) = self.finding(&belief) {
            return Next::Done(finding);
        }
        if self.trials() >= self.options.most_trials as usize {
            let reason = format!("{} trials did not decide it", self.trials());
            return Next::Undecidable { reason, credible: self.credible_of(&belief) };
        }
        match choose::best(self, &belief) {
            Some(best) if best.bits >= LEAST_INFORMATION_BITS => Next::Measure {
                candidate: best.candidate,
                trials: best.trials,
                expected_information_bits: best.bits,
                cost_s: self.cost_s(best.candidate, best.trials),
            },
            _ => {
                let reason = "no further trial would separate the rest".into();
                Next::Undecidable { reason, credible: self.credible_of(&belief) }
            }
        }
    }

    /// The end that lacks first trials; they take turns, so that a drift does not look like a step.
    fn end_to_measure(&self) -> Option<usize> {
        let count = |end: usize| self.observations.iter().filter(|o| o.candidate == end).count();
        let (good, bad) = (count(0), count(self.n - 1));
        let wanted = self.options.end_trials as usize;
        (good.min(bad) < wanted).then_some(if good <= bad { 0 } else { self.n - 1 })
    }

    /// Two steps, where the trials so far make them likely beside one: of a range with several changes the search finds
    /// one of them.
    pub fn two_steps(&self) -> Option<TwoSteps> {
        two_steps::likely(&self.observations, self.n, &self.prior_up_to, &self.options)
    }

    /// The same, with fresh trials of the culprit and of the one before it, as (before, culprit). They say how large this
    /// step is, and no more: their level may be another one, so it is put half way between those of the search.
    ///
    /// # Errors
    /// Candidates that do not exist, and values without a logarithm.
    pub fn two_steps_with(
        &self,
        (before, culprit): (usize, usize),
        fresh: &[(f64, f64)],
    ) -> Result<Option<TwoSteps>, NoEstimate> {
        self.check(before.max(culprit))?;
        let gap = self.belief().and_then(|b| b.gaps.iter().find(|gap| gap.to >= culprit).copied());
        let (Some(gap), false) = (gap, fresh.is_empty()) else { return Ok(self.two_steps()) };
        let origin = self.observations[0].log_value;
        let middle = origin + (gap.before.mean + gap.after.mean) / 2.0;
        let logs = fresh.iter().map(|(a, b)| Ok((log(*a)?, log(*b)?))).collect::<Result<Vec<_>, NoEstimate>>()?;
        let mean = logs.iter().map(|(a, b)| (a + b) / 2.0).sum::<f64>() / logs.len() as f64;
        let mut with = self.clone();
        for (a, b) in logs {
            // All trials of one run are of one session.
            for (candidate, value, session) in [(before, a, self.sessions + 1), (culprit, b, self.sessions + 2)] {
                with.observations.push(Observation { candidate, session, log_value: value - mean + middle });
            }
        }
        Ok(with.two_steps())
    }

    fn belief(&self) -> Option<Posterior> {
        Posterior::of(&self.observations, self.n, &self.prior_up_to, &self.options)
    }

    fn finding(&self, belief: &Posterior) -> Option<Finding> {
        let confidence = self.options.confidence;
        if belief.no_step >= confidence {
            return Some(Finding::NoStep { probability: belief.no_step });
        }
        let wrong = belief.wrong_direction();
        if wrong >= confidence {
            return Some(Finding::WrongDirection { probability: wrong, step_ratio: belief.step_ratio(0, self.n - 1) });
        }
        // Only a gap that holds this much can hold a group that does.
        let gap = belief.gaps.iter().find(|gap| gap.probability >= confidence)?;
        let posterior = belief.within(gap, &self.prior_up_to);
        let mut group = Vec::new();
        let mut sum = 0.0;
        for (candidate, probability) in (gap.from + 1..=gap.to).zip(posterior) {
            if probability > 0.0 {
                group.push(candidate);
                sum += probability;
            }
            // Candidates up to the next one that can be measured cannot be separated from it.
            if !self.skipped[candidate] || candidate == gap.to {
                if sum >= confidence {
                    let step_ratio = belief.step_ratio(gap.from, gap.to);
                    return Some(Finding::Culprit { candidates: group, probability: sum, step_ratio });
                }
                group.clear();
                sum = 0.0;
            }
        }
        None
    }

    /// The fewest candidates that hold the culprit with the wanted confidence, given that there is one; in order.
    pub fn credible(&self) -> Vec<usize> {
        self.belief().map_or_else(|| (1..self.n).collect(), |belief| self.credible_of(&belief))
    }

    fn credible_of(&self, belief: &Posterior) -> Vec<usize> {
        let posterior = belief.of_candidates(&self.prior_up_to);
        let total: f64 = posterior.iter().sum();
        let mut order: Vec<usize> = (0..self.n).filter(|&c| posterior[c] > 0.0).collect();
        order.sort_by(|&i, &j| posterior[j].total_cmp(&posterior[i]).then(i.cmp(&j)));
        let mut sum = 0.0;
        let mut set = Vec::new();
        for candidate in order {
            if sum >= self.options.confidence * total {
                break;
            }
            sum += posterior[candidate];
            set.push(candidate);
        }
        set.sort_unstable();
        set
    }

    /// What `trials` more trials of a candidate cost as things stand.
    fn cost_s(&self, candidate: usize, trials: u32) -> f64 {
        let cost = self.cost(candidate);
        let build_s = if self.built[candidate] { 0.0 } else { cost.build_s };
        let boot_s = if self.up == Some(candidate) { 0.0 } else { cost.boot_s };
        build_s + boot_s + f64::from(trials) * cost.run_s
    }

    fn cost(&self, candidate: usize) -> TrialCost {
        match &self.costs {
            Costs::Same(cost) => *cost,
            Costs::Each(costs) => costs[candidate],
        }
    }
}

fn check_options(options: &Options) -> Result<(), NoEstimate> {
    let inside = |x: f64, low: f64, high: f64| x > low && x < high;
    let at_least_zero = |x: f64| (0.0..1e6).contains(&x);
    let why = if !inside(options.confidence, 0.5, 1.0) {
        "the confidence is not between 0.5 and 1"
    } else if !inside(options.no_step_prior, 0.0, 1.0) {
        "the prior of no step is not between 0 and 1"
    } else if !at_least_zero(options.min_step) {
        "the smallest step is not a share"
    } else if !inside(options.expected_cv, 0.0, 1e3) {
        "the expected coefficient of variation is not above zero"
    } else if options.build_variance_ratio.is_some_and(|ratio| !at_least_zero(ratio)) {
        "the variance ratio of builds is negative or not finite"
    } else if options.outlier_limit.is_some_and(|limit| !inside(limit, 0.5, 1e6)) {
        "the limit of outliers is not above half a sigma"
    } else if options.end_trials < 2 {
        "each end needs two trials or more"
    } else {
        return Ok(());
    };
    Err(NoEstimate::new(why))
}

fn check_costs(costs: &Costs, n: usize) -> Result<(), NoEstimate> {
    let costs = match costs {
        Costs::Same(cost) => std::slice::from_ref(cost),
        Costs::Each(costs) if costs.len() == n => costs,
        Costs::Each(costs) => return Err(NoEstimate::new(format!("{} costs for {n} candidates", costs.len()))),
    };
    // Seconds up to about 30 years; larger ones would only lose digits.
    let is_cost = |s: f64| (0.0..=1e9).contains(&s);
    for cost in costs {
        if !(is_cost(cost.build_s) && is_cost(cost.boot_s) && is_cost(cost.run_s)) {
            return Err(NoEstimate::new("a cost is negative, not finite, or longer than 30 years"));
        }
        if cost.run_s <= 0.0 {
            return Err(NoEstimate::new("a trial that takes no time"));
        }
    }
    Ok(())
}

/// The running sum of the normalised weights; candidate 0 has none.
fn prior(weights: Option<&[f64]>, n: usize) -> Result<Vec<f64>, NoEstimate> {
    let Some(weights) = weights else {
        return Ok((0..n).map(|i| i as f64 / (n - 1) as f64).collect());
    };
    if weights.len() != n {
        return Err(NoEstimate::new(format!("{} prior weights for {n} candidates", weights.len())));
    }
    if weights.iter().any(|w| !(w.is_finite() && *w >= 0.0)) {
        return Err(NoEstimate::new("a prior weight is negative or not finite"));
    }
    // Divided by the largest first, so that the sum cannot overflow.
    let largest = weights[1..].iter().copied().fold(0.0, f64::max);
    if largest <= 0.0 {
        return Err(NoEstimate::new("all prior weights are zero"));
    }
    let mut sum = 0.0;
    let mut up_to = vec![0.0];
    for weight in &weights[1..] {
        sum += weight / largest;
        up_to.push(sum);
    }
    for p in &mut up_to {
        *p /= sum;
    }
    Ok(up_to)
}
