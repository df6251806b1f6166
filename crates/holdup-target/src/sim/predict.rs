//! A plan on many machines that may be the one: its ratios, and the parameters that they depend on.

use super::ahead::Ahead;
use super::reach::Search;
use super::session::{Job, simulate};
use super::{Traces, described, parameters_of, simulated};
use crate::local;
use crate::run::trial_seed;
use holdup_catalogue::reports;
use holdup_host::Host;
use holdup_load::Cancel;
use holdup_model::prediction::{
    HangsOn, Predicted, PredictedArm, PredictedRatio, Prediction, PublishedBeside, ScalingBeside, Wanted,
};
use holdup_model::published::{PublishedRatio, PublishedReport};
use holdup_model::{Arm, Event, Metric, Observer, Plan, Problem, Schedule, Trial, TrialStatus, Value};
use holdup_sim::machine::{Described, Provenance, draws};
use holdup_stats::geometric_mean;
use holdup_stats::scaling::{LoadPoint, Model, fit_model};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// All that a prediction needs.
pub struct PredictRequest<'a> {
    pub host: &'a Host,
    /// The checked plan, with target `sim`.
    pub plan: &'a Plan,
    pub schedule: &'a Schedule,
    /// How many machines to draw.
    pub draws: u32,
    /// Ratios that somebody found: what must a machine be to give them?
    pub reach: Vec<Wanted>,
    pub cancel: Cancel,
}

/// By which share a parameter must move a ratio to be reported.
const LEAST_EFFECT: f64 = 0.005;
/// The most parameters that are reported for a ratio.
const MOST_PARAMETERS: usize = 8;

/// Predicts what a plan's arms bring.
///
/// # Errors
/// When the plan cannot be simulated, names several workloads, or is interrupted.
pub fn predict(request: &PredictRequest<'_>, observer: &mut dyn Observer) -> Result<Prediction, Problem> {
    let machine = described_of(request)?;
    let sweep = Sweep::new(request, &machine)?;
    sweep.judge(&sweep.simulate(0..sweep.trials(), None, observer)?)
}

/// The machine that a prediction is for.
///
/// # Errors
/// When there is no such machine, or its file cannot be read or is wrong.
pub fn described_of(request: &PredictRequest<'_>) -> Result<Described, Problem> {
    described(request.host, request.plan.target.strip_prefix(super::PREFIX).unwrap_or_default())
}

/// All trials of a prediction, which may be simulated in parts: those of the prediction itself, then those of each ratio that is
/// looked for; of each machine in turn, one trial of each arm.
pub struct Sweep<'a> {
    request: &'a PredictRequest<'a>,
    machine: &'a Described,
    metric: Metric,
    workload: &'a holdup_model::WorkloadUse,
    arms: Vec<&'a Arm>,
    machines: Vec<Described>,
    ends: Ends,
    searches: Vec<Search<'a>>,
}

impl<'a> Sweep<'a> {
    /// What is to be simulated.
    ///
    /// # Errors
    /// When the plan names several workloads, or has not what is looked for.
    pub fn new(request: &'a PredictRequest<'a>, machine: &'a Described) -> Result<Self, Problem> {
        let plan = request.plan;
        let [workload] = plan.workloads.as_slice() else {
            return Err(Problem::usage("holdup predict", "the plan has several workloads")
                .hint("predict one at a time: leave the others out"));
        };
        let metric = primary(plan, workload)?;
        let arms: Vec<&Arm> = request.schedule.arms.iter().filter(|arm| arm.replica.is_none()).collect();
        let (machines, ends) = machines(request, machine);
        let search = |wanted| Search::new(request, machine, wanted, &arms);
        let searches: Result<_, Problem> = request.reach.iter().map(search).collect();
        Ok(Sweep { request, machine, metric, workload, machines, ends, searches: searches?, arms })
    }

    /// Machines, and the arms that are simulated on each of them.
    fn tables(&self) -> impl Iterator<Item = (&[Described], &[&'a Arm])> {
        let searched = self.searches.iter().map(|search| (&*search.machines, &*search.arms));
        std::iter::once((&*self.machines, &*self.arms)).chain(searched)
    }

    /// How many trials there are.
    pub fn trials(&self) -> usize {
        self.tables().map(|(machines, arms)| machines.len() * arms.len()).sum()
    }

    /// What trial is computed from what. The same arm has the same random numbers on all machines, so that what differs is the
    /// machine.
    fn jobs(&self, range: &Range<usize>) -> Result<Vec<Job>, Problem> {
        let plan = self.request.plan;
        let traces = Traces::read(plan, self.arms.iter().copied())?;
        let mut jobs = Vec::with_capacity(range.len());
        let all = self.tables().flat_map(|(machines, arms)| {
            machines.iter().flat_map(move |one| arms.iter().enumerate().map(move |(place, arm)| (one, place, *arm)))
        });
        for (one, place, arm) in all.skip(range.start).take(range.len()) {
            jobs.push(Job {
                of_arm: Arc::new(simulated(one, plan, arm, &traces)?),
                seed: trial_seed(plan.design.seed, place as u32),
                warmup_ns: plan.design.warmup_ns,
                duration_ns: plan.design.duration_ns,
                collectors: Vec::new(),
            });
        }
        Ok(jobs)
    }

    /// The metric of each of these trials, simulated on this many threads; `None` for all CPUs.
    ///
    /// # Errors
    /// When a trial cannot be simulated, or this is interrupted.
    pub fn simulate(
        &self,
        range: Range<usize>,
        threads: Option<usize>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<f64>, Problem> {
        let jobs = self.jobs(&range)?;
        let count = jobs.len();
        let ahead = Ahead::begin(threads, count, move |job, stop| simulate(&jobs[job], stop));
        let mut values = Vec::with_capacity(count);
        for job in 0..count {
            let cancelled = || self.request.cancel.is_cancelled();
            let trial: Option<Trial> = ahead.result(job, &cancelled).flatten();
            let trial = trial.ok_or_else(|| Problem::interrupted("the prediction"))?;
            if let TrialStatus::Void { reason } = trial.status {
                let problem = Problem::host("the prediction", reason);
                return Err(trial.notes.into_iter().fold(problem, Problem::hint));
            }
            values.push(trial.metric(&self.metric.id).unwrap_or(f64::NAN));
            if job % 16 == 15 {
                observer.event(Event::Step(&format!("simulated {} of {count} trials", job + 1)));
            }
        }
        Ok(values)
    }

    /// What a trial costs here, measured on trials that are spread over all, until this much time has passed.
    ///
    /// # Errors
    /// As [`Sweep::simulate`].
    pub fn trial_cost(&self, at_most: Duration) -> Result<Duration, Problem> {
        let begun = Instant::now();
        let trials = self.trials();
        let mut done = 0;
        // A step that has no divisor in common with most numbers of arms goes through all of them.
        for at in (0..trials).map(|number| number * 7919 % trials) {
            self.simulate(at..at + 1, Some(1), &mut holdup_model::progress::Silent)?;
            done += 1;
            if begun.elapsed() >= at_most {
                break;
            }
        }
        Ok(begun.elapsed() / done.max(1))
    }

    /// What follows from the metric of all trials.
    ///
    /// # Errors
    /// When these are not all.
    pub fn judge(&self, values: &[f64]) -> Result<Prediction, Problem> {
        let (request, plan, machine) = (self.request, self.request.plan, self.machine);
        if values.len() != self.trials() {
            let why = format!("there are {} values for {} trials", values.len(), self.trials());
            return Err(Problem::internal("the prediction", why));
        }
        let mut rest = values;
        let mut tables = self.tables().map(|(machines, arms)| {
            let (of_table, others) = rest.split_at(machines.len() * arms.len());
            rest = others;
            of_table.chunks(arms.len().max(1)).map(<[f64]>::to_vec).collect::<Vec<_>>()
        });
        let values = tables.next().unwrap_or_default();
        let reach = self.searches.iter().zip(tables).map(|(search, values)| search.judge(&values)).collect();
        let (workload, _) = parameters_of(plan, self.arms[0])?;
        let (arms, draws) = (&*self.arms, request.draws as usize);
        let known = |which| machine.parameters.iter().filter(|p| p.provenance == which).count() as u32;
        Ok(Prediction {
            plan: plan.name.clone(),
            machine: format!("{}: {}", machine.name, machine.summary),
            cpus: machine.machine.topology.cpus(),
            workload: self.workload.kind.clone(),
            draws: request.draws,
            known: (known(Provenance::Measured), known(Provenance::Published), known(Provenance::Assumed)),
            leaves_out: workload.leaves_out().to_owned(),
            arms: arms
                .iter()
                .enumerate()
                .map(|(place, arm)| PredictedArm {
                    label: arm.label.clone(),
                    value: spread(values[1..=draws].iter().map(|of_arms| of_arms[place])),
                })
                .collect(),
            published: plan
                .report
                .as_deref()
                .and_then(reports::find)
                .into_iter()
                .flat_map(PublishedReport::ratios)
                .map(|published| beside_published(plan, arms, &values[1..=draws], published))
                .collect(),
            ratios: ratios(plan, arms, &values, (draws, &self.ends), machine),
            scaling: scaling(arms, &values[1..=draws]),
            reach,
            metric: self.metric.clone(),
        })
    }
}

fn primary(plan: &Plan, used: &holdup_model::WorkloadUse) -> Result<Metric, Problem> {
    let workload = local::workload_of(used)?;
    let chosen = plan.metrics.iter().find(|m| m.primary).map(|m| m.id.clone());
    let id = chosen.or_else(|| workload.primary_metric().map(str::to_owned)).unwrap_or_default();
    let all = local::metrics_of(plan, used, workload);
    all.into_iter().map(|(_, metric)| metric).find(|m| m.id == id).ok_or_else(|| {
        Problem::usage(format!("metric {id}"), "the workload does not have it").hint("name a primary metric of it")
    })
}

/// Where the machines with each parameter at the lower and at the upper end of its range are, by parameter.
type Ends = Vec<(usize, usize)>;

/// The machine as its file has it, then those that were drawn, then two for each parameter that has a range: at both ends
/// of it.
fn machines(request: &PredictRequest<'_>, machine: &Described) -> (Vec<Described>, Ends) {
    let with = |m| Described { machine: m, ..machine.clone() };
    let mut all = vec![machine.clone()];
    all.extend(draws::draws(machine, request.draws as usize, request.plan.design.seed).into_iter().map(with));
    let mut ends = Vec::new();
    for p in &machine.parameters {
        match p.range_ns.0 == p.range_ns.1 {
            true => ends.push((0, 0)),
            false => {
                ends.push((all.len(), all.len() + 1));
                all.extend([p.range_ns.0, p.range_ns.1].map(|ns| with(machine.with(p.name, ns))));
            }
        }
    }
    (all, ends)
}

pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let (low, part) = (at.floor() as usize, at.fract());
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] * (1.0 - part) + sorted[high] * part
}

pub(super) fn spread(values: impl Iterator<Item = f64>) -> Predicted {
    let mut sorted: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.is_empty() {
        true => Predicted { median: f64::NAN, low: f64::NAN, high: f64::NAN },
        false => {
            Predicted { median: quantile(&sorted, 0.5), low: quantile(&sorted, 0.05), high: quantile(&sorted, 0.95) }
        }
    }
}

/// The level of each factor and axis of an arm, as shown.
fn levels(arm: &Arm) -> Vec<(&str, &str)> {
    let all = arm.axes.iter().chain(&arm.factors);
    all.map(|(name, level)| (name.as_str(), level.label.as_str())).collect()
}

/// What a factor or an axis changes from and to: its name, the first level, the level.
type Change<'a> = (&'a str, &'a str, &'a str);

/// The pairs of arms that differ in one factor alone: (the arm with the first level, the arm with the level).
pub(super) fn pairs(arms: &[&Arm], factor: &str, baseline: &str, level: &str) -> Vec<(usize, usize)> {
    pairs_of(arms, &[(factor, baseline, level)])
}

/// The pairs of arms that differ in these changes alone.
fn pairs_of(arms: &[&Arm], changes: &[Change<'_>]) -> Vec<(usize, usize)> {
    let without = |arm: &Arm| -> Vec<(String, String)> {
        let is_changed = |name: &str| changes.iter().any(|(changed, ..)| *changed == name);
        let others = levels(arm).into_iter().filter(|(name, _)| !is_changed(name));
        others.map(|(name, label)| (name.to_owned(), label.to_owned())).collect()
    };
    let has = |arm: &Arm, label: fn(&Change<'_>) -> String| {
        changes.iter().all(|change| levels(arm).contains(&(change.0, &label(change))))
    };
    let mut found = Vec::new();
    for (at, arm) in arms.iter().enumerate().filter(|(_, arm)| has(arm, |(_, _, to)| (*to).to_owned())) {
        let other = arms
            .iter()
            .position(|other| has(other, |(_, from, _)| (*from).to_owned()) && without(other) == without(arm));
        found.extend(other.map(|other| (other, at)));
    }
    found
}

/// A published ratio beside that of the machines that were drawn.
fn beside_published(plan: &Plan, arms: &[&Arm], of_draws: &[Vec<f64>], published: &PublishedRatio) -> PublishedBeside {
    let axes = plan.workloads.iter().flat_map(|w| &w.axes);
    let first = |name: &String| plan.factors.iter().chain(axes.clone()).find(|f| f.name == *name)?.levels.first();
    let baseline: Option<Vec<String>> =
        published.levels.keys().map(|name| first(name).map(|level| level.label.clone())).collect();
    let baseline = baseline.unwrap_or_default();
    let changes: Vec<Change<'_>> = published
        .levels
        .iter()
        .zip(&baseline)
        .map(|((name, level), first)| (name.as_str(), first.as_str(), level.as_str()))
        .collect();
    let is_there = |arm: &Arm| {
        published.at.iter().all(|(name, label)| match levels(arm).iter().find(|(known, _)| known == name) {
            Some((_, level)) => level == label,
            None => is_fixed_at(plan, name, label),
        })
    };
    let mut pairs = if changes.is_empty() { Vec::new() } else { pairs_of(arms, &changes) };
    pairs.retain(|(_, arm)| is_there(arms[*arm]));
    let range = spread(of_draws.iter().map(|of_arms| ratio_of(&pairs, of_arms)));
    PublishedBeside { published: published.clone(), baseline, range: range.median.is_finite().then_some(range) }
}

/// True if a factor or a parameter has this level in all arms.
fn is_fixed_at(plan: &Plan, name: &str, label: &str) -> bool {
    let is_set = plan.settings.iter().any(|(known, level)| known == name && level.label == label);
    let shown = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        other => other.to_string(),
    };
    let of_workload = |used: &holdup_model::WorkloadUse| used.parameters.get(name).is_some_and(|v| shown(v) == label);
    is_set || plan.workloads.iter().any(of_workload)
}

pub(super) fn ratio_of(pairs: &[(usize, usize)], of_arms: &[f64]) -> f64 {
    let each: Vec<f64> = pairs.iter().map(|(base, arm)| of_arms[*arm] / of_arms[*base]).collect();
    geometric_mean(&each).unwrap_or(f64::NAN)
}

fn ratios(
    plan: &Plan,
    arms: &[&Arm],
    values: &[Vec<f64>],
    (draws, ends): (usize, &Ends),
    machine: &Described,
) -> Vec<PredictedRatio> {
    let axes = plan.workloads.iter().flat_map(|w| &w.axes).map(|a| (&a.name, &a.levels));
    let factors = plan.factors.iter().map(|f| (&f.name, &f.levels));
    let mut all = Vec::new();
    for (name, levels) in factors.chain(axes) {
        let Some((first, others)) = levels.split_first() else { continue };
        for level in others {
            let pairs = pairs(arms, name, &first.label, &level.label);
            if pairs.is_empty() {
                continue;
            }
            all.push(PredictedRatio {
                factor: name.clone(),
                level: level.label.clone(),
                baseline: first.label.clone(),
                ratio: spread(values[1..=draws].iter().map(|of_arms| ratio_of(&pairs, of_arms))),
                hangs_on: hangs_on(&pairs, (values, ends), machine),
            });
        }
    }
    all
}

fn hangs_on(pairs: &[(usize, usize)], (values, ends): (&[Vec<f64>], &Ends), machine: &Described) -> Vec<HangsOn> {
    let mut all: Vec<HangsOn> = machine
        .parameters
        .iter()
        .zip(ends)
        .map(|(p, ends)| HangsOn {
            parameter: p.name.to_owned(),
            source: p.source.clone(),
            range_ns: p.range_ns,
            at_low: ratio_of(pairs, &values[ends.0]),
            at_high: ratio_of(pairs, &values[ends.1]),
        })
        .filter(|h| moved(h) >= LEAST_EFFECT)
        .collect();
    all.sort_by(|a, b| moved(b).total_cmp(&moved(a)).then_with(|| a.parameter.cmp(&b.parameter)));
    all.truncate(MOST_PARAMETERS);
    all
}

fn moved(h: &HangsOn) -> f64 {
    (h.at_high / h.at_low).ln().abs()
}

/// The fewest loads that say something about a law with three coefficients.
const FEWEST_LOADS: usize = 4;

fn scaling(arms: &[&Arm], of_draws: &[Vec<f64>]) -> Vec<ScalingBeside> {
    let median = |place: usize| spread(of_draws.iter().map(|of_arms| of_arms[place])).median;
    let mut all: Vec<ScalingBeside> = Vec::new();
    let axes: Vec<&String> = arms.first().map(|arm| arm.axes.keys().collect()).unwrap_or_default();
    for axis in axes {
        let mut groups: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for (place, arm) in arms.iter().enumerate() {
            let Some(Value::Integer(load)) = arm.axes.get(axis).map(|level| &level.value) else { continue };
            let others = levels(arm).into_iter().filter(|(name, _)| name != axis);
            let at: Vec<String> = others.map(|(name, label)| format!("{name}={label}")).collect();
            let at = at.join(" ");
            let point = (*load as f64, median(place));
            match groups.iter_mut().find(|(known, _)| *known == at) {
                Some((_, points)) => points.push(point),
                None => groups.push((at, vec![point])),
            }
        }
        let enough = groups.into_iter().filter(|(_, points)| points.len() >= FEWEST_LOADS);
        all.extend(enough.map(|(at, points)| beside(axis, at, &points)));
    }
    all
}

fn beside(axis: &str, at: String, points: &[(f64, f64)]) -> ScalingBeside {
    let loads: Vec<LoadPoint> = points
        .iter()
        .map(|(load, throughput)| LoadPoint { load: *load, throughput: *throughput, weight: 1.0 })
        .collect();
    let mut beside = ScalingBeside { axis: axis.to_owned(), at, points: Vec::new(), worst: f64::NAN, absent: None };
    match fit_model(Model::Usl, &loads) {
        Ok(law) => {
            beside.points = points.iter().zip(&law.fitted).map(|((load, x), law)| (*load, *x, *law)).collect();
            beside.worst = beside.points.iter().map(|(_, x, law)| ((law - x) / x).abs()).fold(0.0, f64::max);
        }
        Err(error) => beside.absent = Some(error.to_string()),
    }
    beside
}
