//! Results as a bundle: an arm for each name and each combination of labels, a trial for each run.

use crate::{Results, Sample};
use holdup_model::bundle::{BundleHead, Ending, IMPORTED};
use holdup_model::plan::{Level, MetricChoice, WorkloadUse};
use holdup_model::{
    Arm, BundleData, EnvironmentReading, Fact, Factor, MemoryBudget, Metric, Plan, Schedule, TooLarge, Trial,
    TrialSpec, TrialStatus, Window,
};
use std::collections::{BTreeMap, BTreeSet};

/// The factor that distinguishes what was given.
const FACTOR: &str = "results";

/// The label that says what was run: each is a workload, and is compared with itself only.
const BENCHMARK: &str = "benchmark";

/// The margin of the metric that comparisons are about: that of plans which name none.
const MARGIN: f64 = 0.02;

/// The results of a file, and the arm that they are of.
pub struct Named {
    /// The arm's name; several files may have the same.
    pub name: String,
    /// What its file says.
    pub results: Results,
}

/// The bundle of these results; the first name is the baseline.
///
/// # Errors
/// When it takes more memory than the budget has.
pub fn bundle(kind: &str, given: Vec<Named>, head: BundleHead, budget: &MemoryBudget) -> Result<BundleData, TooLarge> {
    let names = distinct(named(&given).map(|(name, _)| name.to_owned()));
    let confounded = confounded(&names, &given);
    let (arms, of_samples, works) = arms(kind, &given, (&names, &confounded), budget)?;
    let metrics = metrics(&works, &given, budget)?;
    let cautions = confounded.into_values().chain(given.iter().flat_map(|one| one.results.cautions.clone()));
    let log = distinct(cautions).into_iter().map(|caution| (head.created_unix_ns, caution)).collect();
    let environment = environment(&given);
    let (mut trials, mut order): (Vec<Trial>, Vec<TrialSpec>) = (Vec::new(), Vec::new());
    let mut blocks = vec![0; arms.len()];
    let samples = given.into_iter().flat_map(|one| one.results.samples);
    for (seq, (sample, arm)) in (0..).zip(samples.zip(of_samples)) {
        let block = blocks[arm as usize];
        order.push(TrialSpec { seq, session: 0, boot: 0, block, position: 0, arm });
        trials.push(trial((seq, arm, block), sample, head.created_unix_ns));
        blocks[arm as usize] += 1;
    }
    let mut plan = plan(kind, &names, works, &metrics);
    plan.design.blocks = blocks.into_iter().max().unwrap_or(0);
    Ok(BundleData {
        plan_source: format!("# This bundle was imported from results of {kind}: there is no plan to run.\n"),
        metrics,
        environment,
        trials,
        log,
        ending: Some(Ending::Complete),
        ..BundleData::begun(head, plan, Schedule { arms, trials: order })
    })
}

/// The samples, each with what it is a run of: what its file says was compared, else the name that was given.
fn named(given: &[Named]) -> impl Iterator<Item = (&str, &Sample)> {
    given.iter().flat_map(|one| {
        one.results.samples.iter().map(|sample| (sample.compared.as_deref().unwrap_or(&one.name), sample))
    })
}

/// A fact on which the files do not agree is no fact of the bundle.
fn environment(given: &[Named]) -> Vec<EnvironmentReading> {
    let mut seen = BTreeSet::new();
    let all = given.iter().flat_map(|one| &one.results.facts);
    let facts: Vec<&Fact> = all.filter(|fact| seen.insert(*fact)).collect();
    let mut values: BTreeMap<&str, u32> = BTreeMap::new();
    facts.iter().for_each(|fact| *values.entry(&fact.key).or_default() += 1);
    let facts: Vec<Fact> = facts.into_iter().filter(|fact| values[fact.key.as_str()] == 1).cloned().collect();
    if facts.is_empty() { Vec::new() } else { vec![EnvironmentReading { session: 0, boot: 0, facts }] }
}

fn distinct(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    all.filter(|one| seen.insert(one.clone())).collect()
}

/// A benchmark of several that a file has: its axes, and what was measured of it.
struct Work {
    name: String,
    axes: Vec<Factor>,
    /// Axes on which its runs differ; one that some of them do not have is among them.
    varied: BTreeSet<String>,
    measured: BTreeSet<String>,
    /// Those of them that every run which counts has, and not only the reason why not.
    known: BTreeSet<String>,
}

/// Memory of a benchmark in the plan, of an arm with its levels, of a metric of a benchmark, bytes.
const WORK_BYTES: u64 = 4096;
const ARM_BYTES: u64 = 2560;
const METRIC_BYTES: u64 = 320;

impl Work {
    fn new(samples: &[&Sample], name: &str, confounded: &BTreeMap<String, String>) -> Self {
        let (axes, varied) = axes(samples, confounded);
        let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
        for sample in samples {
            let mut known = BTreeSet::new();
            for measurement in &sample.measurements {
                let is_known = measurement.value.value().is_some() && known.insert(&measurement.metric);
                *counts.entry(&measurement.metric).or_default() += usize::from(is_known && sample.void.is_none());
            }
        }
        let done = samples.iter().filter(|sample| sample.void.is_none()).count();
        let known = counts.iter().filter(|(_, count)| **count == done).map(|(id, _)| (*id).clone()).collect();
        Work { name: name.to_owned(), axes, varied, measured: counts.into_keys().cloned().collect(), known }
    }
}

fn is_axis(key: &str, confounded: &BTreeMap<String, String>) -> bool {
    key != BENCHMARK && !confounded.contains_key(key)
}

/// The labels as axes, their levels in the order of numbers where all are numbers, else as they came; and those on which samples differ.
fn axes(samples: &[&Sample], confounded: &BTreeMap<String, String>) -> (Vec<Factor>, BTreeSet<String>) {
    let mut of_keys: BTreeMap<&String, (Vec<Level>, BTreeSet<&str>, usize)> = BTreeMap::new();
    let labels = samples.iter().flat_map(|sample| &sample.labels);
    for (key, label) in labels.filter(|(key, _)| is_axis(key, confounded)) {
        let (levels, seen, count) = of_keys.entry(key).or_default();
        *count += 1;
        if seen.insert(label) {
            levels.push(level(label));
        }
    }
    let (mut axes, mut varied) = (Vec::new(), BTreeSet::new());
    for (key, (mut levels, _, count)) in of_keys {
        if levels.iter().all(|level| level.value.number().is_some()) {
            levels.sort_by(|a, b| a.value.number().unwrap_or(0.0).total_cmp(&b.value.number().unwrap_or(0.0)));
        }
        if levels.len() > 1 || count < samples.len() {
            varied.insert(key.clone());
        }
        axes.push(Factor { name: key.clone(), levels, workloads: Vec::new(), optional: false });
    }
    (axes, varied)
}

/// The value of a setting that a sample does not have.
const NONE: &str = "none";

/// Names that a caution lists.
const MOST_NAMES: usize = 20;

/// A setting that differs with the name and with nothing else is no axis: what it does cannot be separated from what the name stands for.
/// Cautions by such settings.
fn confounded(names: &[String], given: &[Named]) -> BTreeMap<String, String> {
    let mut samples: BTreeMap<&str, usize> = BTreeMap::new();
    // Of each key and name one value, how many samples have any, and whether all have that one.
    let mut values: BTreeMap<&str, BTreeMap<&str, (&str, usize, bool)>> = BTreeMap::new();
    for (name, sample) in named(given) {
        *samples.entry(name).or_default() += 1;
        for (key, value) in &sample.labels {
            let of_name = values.entry(key).or_default().entry(name).or_insert((value.as_str(), 0, true));
            *of_name = (of_name.0, of_name.1 + 1, of_name.2 && of_name.0 == value);
        }
    }
    let mut cautions = BTreeMap::new();
    for (key, of_names) in values {
        let only = |name: &str| match of_names.get(name) {
            None => Some(NONE),
            Some((value, count, true)) if *count == samples[name] || *value == NONE => Some(*value),
            Some(_) => None,
        };
        let mut all: BTreeSet<Option<&str>> = of_names.keys().copied().map(only).collect();
        if of_names.len() < names.len() {
            all.insert(Some(NONE));
        }
        if all.len() < 2 || all.contains(&None) {
            continue;
        }
        let listed = names.iter().take(MOST_NAMES);
        let each: Vec<String> = listed.map(|name| format!("{} in {name}", only(name).unwrap_or_default())).collect();
        let more = match names.len().saturating_sub(MOST_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        cautions.insert(key.to_owned(), format!("Compared runs differ in {key} too: {}{more}.", each.join(", ")));
    }
    cautions
}

/// The arms, the arm of each sample, and the benchmarks.
type ArmsOfSamples = (Vec<Arm>, Vec<u32>, Vec<Work>);

fn arms(
    kind: &str,
    given: &[Named],
    (names, confounded): (&[String], &BTreeMap<String, String>),
    budget: &MemoryBudget,
) -> Result<ArmsOfSamples, TooLarge> {
    // Benchmarks that differ with the name alone have nothing to be compared with.
    let benchmark = |sample: &'_ Sample| -> String {
        let own = sample.labels.get(BENCHMARK).filter(|_| !confounded.contains_key(BENCHMARK));
        own.map_or(kind, String::as_str).to_owned()
    };
    let mut samples_of: Vec<(String, Vec<&Sample>)> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (_, sample) in named(given) {
        let name = benchmark(sample);
        let place = match places.get(&name) {
            Some(place) => *place,
            None => {
                budget.take(WORK_BYTES + 8 * name.len() as u64)?;
                places.insert(name.clone(), samples_of.len());
                samples_of.push((name, Vec::new()));
                samples_of.len() - 1
            }
        };
        samples_of[place].1.push(sample);
    }
    let works: Vec<Work> = samples_of.iter().map(|(name, samples)| Work::new(samples, name, confounded)).collect();
    let (mut arms, mut of_samples): (Vec<Arm>, Vec<u32>) = (Vec::new(), Vec::new());
    let (mut known, mut labels) = (BTreeMap::new(), BTreeSet::new());
    for (name, sample) in named(given) {
        let place = places[&benchmark(sample)];
        let axes: Vec<_> = sample.labels.iter().filter(|(key, _)| is_axis(key, confounded)).collect();
        let next = arms.len() as u32;
        let id = *known.entry((place, name, axes)).or_insert(next);
        if id == next {
            let texts: usize = sample.labels.iter().map(|(key, label)| key.len() + label.len()).sum();
            budget.take(ARM_BYTES + 8 * texts as u64)?;
            let mut arm = arm(next, (names, name), &works[place], works.len() > 1, sample);
            // Names and values may have spaces.
            while !labels.insert(arm.label.clone()) {
                arm.label.push_str(&format!(" (arm {next})"));
            }
            arms.push(arm);
        }
        of_samples.push(id);
    }
    Ok((arms, of_samples, works))
}

fn arm(id: u32, (names, name): (&[String], &str), work: &Work, several: bool, sample: &Sample) -> Arm {
    let is_axis = |key: &&String| work.axes.binary_search_by(|axis| axis.name.cmp(key)).is_ok();
    let labels = || sample.labels.iter().filter(|(key, _)| is_axis(key));
    let factors: BTreeMap<String, Level> = match names {
        [_] => BTreeMap::new(),
        _ => [(FACTOR.to_owned(), Level::plain(name))].into(),
    };
    let varied = labels().filter(|(key, _)| work.varied.contains(*key));
    let mut words: Vec<String> = varied.map(|(key, label)| format!("{key}={label}")).collect();
    if several {
        words.insert(0, work.name.clone());
    }
    if names.len() > 1 || words.is_empty() {
        words.insert(0, name.to_owned());
    }
    let axes = labels().map(|(key, label)| (key.clone(), level(label))).collect();
    Arm { id, label: words.join(" "), workload: work.name.clone(), axes, factors, replica: None }
}

/// The metrics of each benchmark, in the order of the files.
fn metrics(works: &[Work], given: &[Named], budget: &MemoryBudget) -> Result<Vec<(String, Metric)>, TooLarge> {
    let (mut known, mut places): (Vec<&Metric>, BTreeMap<&str, usize>) = (Vec::new(), BTreeMap::new());
    for metric in given.iter().flat_map(|one| &one.results.metrics) {
        places.entry(&metric.id).or_insert_with(|| {
            known.push(metric);
            known.len() - 1
        });
    }
    let mut metrics = Vec::new();
    for work in works {
        let mut measured: Vec<usize> = match work.measured.is_empty() {
            true => (0..known.len()).collect(),
            false => work.measured.iter().filter_map(|id| places.get(id.as_str()).copied()).collect(),
        };
        measured.sort_unstable();
        budget.take(measured.len() as u64 * (METRIC_BYTES + 2 * work.name.len() as u64))?;
        metrics.extend(measured.into_iter().map(|place| (work.name.clone(), known[place].clone())));
    }
    Ok(metrics)
}

fn level(label: &str) -> Level {
    match label.parse::<i64>() {
        Ok(number) if number.to_string() == label => Level::plain(number),
        _ => Level::plain(label),
    }
}

fn plan(kind: &str, names: &[String], works: Vec<Work>, metrics: &[(String, Metric)]) -> Plan {
    let question = match names {
        [one] => format!("What did {kind} measure in {one}?"),
        [first, others @ ..] => format!("What changed from {first} to {}?", others.join(", ")),
        [] => String::new(),
    };
    let mut plan = Plan::observational(IMPORTED, question, kind, IMPORTED);
    // A percentile of too few samples is no metric that a comparison could be about.
    let mut rest = metrics;
    let first = |work: &Work| {
        let count = rest.iter().take_while(|(of, _)| *of == work.name).count();
        let (of, others) = rest.split_at(count);
        rest = others;
        of.iter().find(|(_, metric)| work.known.contains(&metric.id)).or(of.first())
    };
    plan.metrics.extend(works.iter().filter_map(first).map(|(workload, metric)| MetricChoice {
        id: metric.id.clone(),
        workload: Some(workload.clone()),
        primary: true,
        better: None,
        unit: None,
        margin: MARGIN,
        from: None,
    }));
    if let Some(like) = plan.workloads.pop() {
        let named = |work: Work| WorkloadUse { name: work.name, axes: work.axes, ..like.clone() };
        plan.workloads.extend(works.into_iter().map(named));
    }
    if names.len() > 1 {
        let levels = names.iter().map(|name| Level::plain(name.as_str())).collect();
        plan.factors.push(Factor { name: FACTOR.to_owned(), levels, workloads: Vec::new(), optional: false });
    }
    plan
}

fn trial((seq, arm, block): (u32, u32, u32), sample: Sample, created_unix_ns: i64) -> Trial {
    let begin_unix_ns = sample.begin_unix_ns.unwrap_or(created_unix_ns);
    let length_ns = sample.length_ns.unwrap_or(0);
    let end_unix_ns = begin_unix_ns.saturating_add(i64::try_from(length_ns).unwrap_or(i64::MAX));
    Trial {
        seq,
        arm,
        block,
        status: sample.void.map_or(TrialStatus::Done, |reason| TrialStatus::Void { reason }),
        ended_unix_ns: end_unix_ns,
        window: (length_ns > 0).then_some(Window { begin_unix_ns, end_unix_ns, length_ns }),
        measurements: sample.measurements,
        histograms: sample.histograms,
        notes: sample.notes,
        ..Trial::begun(begin_unix_ns)
    }
}
