//! Results as a bundle: an arm for each name and each combination of labels, a trial for each run.

use crate::{Results, Sample};
use holdup_model::bundle::{BundleHead, Ending, IMPORTED};
use holdup_model::plan::{Level, MetricChoice, WorkloadUse};
use holdup_model::{
    Arm, BundleData, EnvironmentReading, Factor, Metric, Plan, Schedule, Trial, TrialSpec, TrialStatus, Window,
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
pub fn bundle(kind: &str, given: &[Named], head: BundleHead) -> BundleData {
    let names = distinct(named(given).map(|(name, _)| name.to_owned()));
    let keys: BTreeSet<&String> = named(given).flat_map(|(_, sample)| sample.labels.keys()).collect();
    let confounded: BTreeMap<&str, String> =
        keys.iter().filter_map(|key| Some((key.as_str(), confound(key, &names, given)?))).collect();
    // Benchmarks that differ with the name alone have nothing to be compared with.
    let benchmark =
        |sample: &'_ Sample| sample.labels.get(BENCHMARK).filter(|_| !confounded.contains_key(BENCHMARK)).cloned();
    let mut samples_of: Vec<(String, Vec<&Sample>)> = Vec::new();
    let mut place_of: BTreeMap<String, usize> = BTreeMap::new();
    for (_, sample) in named(given) {
        let name = benchmark(sample).unwrap_or_else(|| kind.to_owned());
        let place = *place_of.entry(name).or_insert_with_key(|name| {
            samples_of.push((name.clone(), Vec::new()));
            samples_of.len() - 1
        });
        samples_of[place].1.push(sample);
    }
    let works: Vec<Work> = samples_of.iter().map(|(name, samples)| Work::new(samples, name, &confounded)).collect();
    let (mut arms, mut trials, mut order): (Vec<Arm>, Vec<Trial>, Vec<TrialSpec>) =
        (Vec::new(), Vec::new(), Vec::new());
    let mut blocks: BTreeMap<u32, u32> = BTreeMap::new();
    for (name, sample) in named(given) {
        let own = benchmark(sample).unwrap_or_else(|| kind.to_owned());
        let Some(work) = place_of.get(&own).map(|place| &works[*place]) else { continue };
        let arm = arm_of(&mut arms, (&names, name), work, works.len() > 1, sample);
        let block = blocks.entry(arm).or_default();
        let seq = trials.len() as u32;
        order.push(TrialSpec { seq, session: 0, boot: 0, block: *block, position: 0, arm });
        trials.push(trial(seq, arm, *block, sample, head.created_unix_ns));
        *block += 1;
    }
    let mut known: Vec<&Metric> = Vec::new();
    for metric in given.iter().flat_map(|one| &one.results.metrics) {
        if !known.iter().any(|other| other.id == metric.id) {
            known.push(metric);
        }
    }
    let metrics: Vec<(String, Metric)> = works
        .iter()
        .flat_map(|work| {
            let measured = known.iter().filter(|metric| work.measured.is_empty() || work.measured.contains(&metric.id));
            measured.map(|metric| (work.name.clone(), (*metric).clone()))
        })
        .collect();
    let cautions = distinct(confounded.into_values().chain(given.iter().flat_map(|one| one.results.cautions.clone())));
    let log = cautions.into_iter().map(|caution| (head.created_unix_ns, caution)).collect();
    let facts: Vec<_> = given.iter().flat_map(|one| one.results.facts.clone()).collect();
    let facts: Vec<_> =
        facts.iter().enumerate().filter(|(n, fact)| !facts[..*n].contains(fact)).map(|(_, f)| f.clone()).collect();
    let mut plan = plan(kind, &names, works, &metrics);
    plan.design.blocks = blocks.values().copied().max().unwrap_or(0);
    BundleData {
        plan_source: format!("# This bundle was imported from results of {kind}: there is no plan to run.\n"),
        metrics,
        environment: environment(facts),
        trials,
        log,
        ending: Some(Ending::Complete),
        ..BundleData::begun(head, plan, Schedule { arms, trials: order })
    }
}

/// The samples, each with what it is a run of: what its file says was compared, else the name that was given.
fn named(given: &[Named]) -> impl Iterator<Item = (&str, &Sample)> {
    given.iter().flat_map(|one| {
        one.results.samples.iter().map(|sample| (sample.compared.as_deref().unwrap_or(&one.name), sample))
    })
}

/// A fact on which the files do not agree is no fact of the bundle.
fn environment(facts: Vec<holdup_model::Fact>) -> Vec<EnvironmentReading> {
    let agreed = |fact: &holdup_model::Fact| facts.iter().filter(|other| other.key == fact.key).count() == 1;
    let facts: Vec<_> = facts.iter().filter(|fact| agreed(fact)).cloned().collect();
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
    measured: BTreeSet<String>,
    /// Those of them that every run which counts has, and not only the reason why not.
    known: BTreeSet<String>,
}

impl Work {
    fn new(samples: &[&Sample], name: &str, confounded: &BTreeMap<&str, String>) -> Self {
        let mut axes = axes(samples);
        axes.retain(|axis| axis.name != BENCHMARK && !confounded.contains_key(axis.name.as_str()));
        let measurements = samples.iter().flat_map(|sample| &sample.measurements);
        let measured: BTreeSet<String> = measurements.map(|m| m.metric.clone()).collect();
        let has = |sample: &&Sample, id: &String| {
            sample.void.is_some() || sample.measurements.iter().any(|m| m.metric == *id && m.value.value().is_some())
        };
        let known = measured.iter().filter(|id| samples.iter().all(|s| has(s, id))).cloned().collect();
        Work { name: name.to_owned(), axes, measured, known }
    }
}

/// The labels as axes, their levels in the order of numbers where all are numbers, else as they came.
fn axes(samples: &[&Sample]) -> Vec<Factor> {
    let labels = || samples.iter().flat_map(|sample| &sample.labels);
    let keys: BTreeSet<&String> = labels().map(|(key, _)| key).collect();
    let axis = |key: &String| {
        let mut levels: Vec<Level> = distinct(labels().filter(|(k, _)| *k == key).map(|(_, v)| v.clone()))
            .iter()
            .map(|label| level(label))
            .collect();
        if levels.iter().all(|level| level.value.number().is_some()) {
            levels.sort_by(|a, b| a.value.number().unwrap_or(0.0).total_cmp(&b.value.number().unwrap_or(0.0)));
        }
        Factor { name: key.clone(), levels, workloads: Vec::new(), optional: false }
    };
    keys.into_iter().map(axis).collect()
}

/// A setting that differs with the name and with nothing else is no axis: what it does cannot be separated from what the name stands for.
fn confound(key: &str, names: &[String], given: &[Named]) -> Option<String> {
    let of_name = |name: &String| {
        let samples = named(given).filter(|(of, _)| of == name);
        distinct(samples.map(|(_, sample)| sample.labels.get(key).cloned().unwrap_or_else(|| "none".to_owned())))
    };
    let values: Vec<Vec<String>> = names.iter().map(of_name).collect();
    let differs = values.iter().all(|of| of.len() == 1) && values.windows(2).any(|pair| pair[0] != pair[1]);
    let each = || names.iter().zip(&values).map(|(name, of)| format!("{} in {name}", of.concat())).collect::<Vec<_>>();
    differs.then(|| format!("Compared runs differ in {key} too: {}.", each().join(", ")))
}

fn level(label: &str) -> Level {
    match label.parse::<i64>() {
        Ok(number) if number.to_string() == label => Level::plain(number),
        _ => Level::plain(label),
    }
}

fn arm_of(arms: &mut Vec<Arm>, (names, name): (&[String], &str), work: &Work, several: bool, sample: &Sample) -> u32 {
    let labels = sample.labels.iter().filter(|(key, _)| work.axes.iter().any(|axis| axis.name == **key));
    let axes: BTreeMap<String, Level> = labels.map(|(key, label)| (key.clone(), level(label))).collect();
    let factors: BTreeMap<String, Level> = match names {
        [_] => BTreeMap::new(),
        _ => [(FACTOR.to_owned(), Level::plain(name))].into(),
    };
    let is_it = |arm: &&Arm| arm.workload == work.name && arm.axes == axes && arm.factors == factors;
    if let Some(known) = arms.iter().find(is_it) {
        return known.id;
    }
    let varied = work.axes.iter().filter(|axis| axis.levels.len() > 1);
    let mut words: Vec<String> =
        varied.filter_map(|axis| Some(format!("{}={}", axis.name, sample.labels.get(&axis.name)?))).collect();
    if several {
        words.insert(0, work.name.clone());
    }
    if names.len() > 1 || words.is_empty() {
        words.insert(0, name.to_owned());
    }
    let id = arms.len() as u32;
    arms.push(Arm { id, label: words.join(" "), workload: work.name.clone(), axes, factors, replica: None });
    id
}

fn plan(kind: &str, names: &[String], works: Vec<Work>, metrics: &[(String, Metric)]) -> Plan {
    let question = match names {
        [one] => format!("What did {kind} measure in {one}?"),
        [first, others @ ..] => format!("What changed from {first} to {}?", others.join(", ")),
        [] => String::new(),
    };
    let mut plan = Plan::observational(IMPORTED, question, kind, IMPORTED);
    // A percentile of too few samples is no metric that a comparison could be about.
    let first = |work: &Work| {
        let of = || metrics.iter().filter(|(of, _)| *of == work.name);
        of().find(|(_, metric)| work.known.contains(&metric.id)).or_else(|| of().next())
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

fn trial(seq: u32, arm: u32, block: u32, sample: &Sample, created_unix_ns: i64) -> Trial {
    let begin_unix_ns = sample.begin_unix_ns.unwrap_or(created_unix_ns);
    let length_ns = sample.length_ns.unwrap_or(0);
    let end_unix_ns = begin_unix_ns.saturating_add(i64::try_from(length_ns).unwrap_or(i64::MAX));
    let reason = sample.void.clone();
    Trial {
        seq,
        arm,
        block,
        status: reason.map_or(TrialStatus::Done, |reason| TrialStatus::Void { reason }),
        ended_unix_ns: end_unix_ns,
        window: (length_ns > 0).then_some(Window { begin_unix_ns, end_unix_ns, length_ns }),
        measurements: sample.measurements.clone(),
        histograms: sample.histograms.clone(),
        notes: sample.notes.clone(),
        ..Trial::begun(begin_unix_ns)
    }
}
