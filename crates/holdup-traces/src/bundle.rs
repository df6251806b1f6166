//! Traces as a bundle of what was watched: an arm for each name, a trial for each window.

use crate::TraceHead;
use crate::account::{Finished, Totals};
use holdup_model::bundle::{BundleHead, CollectorState, Ending, IMPORTED, OBSERVED};
use holdup_model::metric::Measurement;
use holdup_model::plan::Level;
use holdup_model::{
    Arm, Availability, BundleData, Direction, EnvironmentReading, Fact, Factor, Machine, Metric, Plan, Schedule, Trial,
    TrialSpec, Window,
};
use std::collections::BTreeMap;

/// The factor that distinguishes the arms.
const FACTOR: &str = "trace";

/// A trace that was read.
pub struct Trace {
    /// The name of its arm; several traces may have the same.
    pub name: String,
    /// What its file says.
    pub head: TraceHead,
    /// What happened in it.
    pub finished: Finished,
}

/// What no trace of the scheduler shows, and what would.
const NOT_SEEN: [(&str, &str); 6] = [
    ("critical-sections", "a trace of the scheduler does not show which instructions hold a lock"),
    ("faults", "a trace of the scheduler does not show page faults"),
    ("pressure", "a trace of the scheduler does not show pressure"),
    ("cgroup-throttling", "a trace of the scheduler does not show control groups"),
    ("wait-events", "a trace of the scheduler does not show wait events of PostgreSQL"),
    (PROFILE, "no stack of a task on a CPU is in the trace"),
];
const PROFILE: &str = "cpu-profile";
const REMEDY: &str = "holdup record on that host shows it";

const SEEN: [&str; 6] = ["account", "cpu", "kworkers", "switches", "tasks", "timeline"];

/// The bundle of these traces; the first name is the baseline.
pub fn bundle(traces: Vec<Trace>, watched: &str, head: BundleHead) -> BundleData {
    let mut names: Vec<String> = Vec::new();
    for trace in &traces {
        if !names.contains(&trace.name) {
            names.push(trace.name.clone());
        }
    }
    let cpus = traces.iter().map(|trace| trace.head.cpus.max(trace.finished.cpus)).max().unwrap_or(0);
    let facts = facts(&traces);
    let (mut trials, mut order, mut log) = (Vec::new(), Vec::new(), Vec::new());
    let mut blocks: BTreeMap<u32, u32> = BTreeMap::new();
    for trace in traces {
        let arm = names.iter().position(|name| *name == trace.name).unwrap_or(0) as u32;
        let of = if names.len() > 1 { format!("{}: ", trace.name) } else { String::new() };
        let notes = trace.head.notes.iter().chain(&trace.finished.notes);
        log.extend(notes.map(|note| (head.created_unix_ns, format!("{of}{note}"))));
        let begin_ns = trace.finished.begin_ns;
        for (totals, evidence) in trace.finished.windows.iter().zip(trace.finished.evidence) {
            let seq = trials.len() as u32;
            let block = blocks.entry(arm).or_default();
            order.push(TrialSpec { seq, session: 0, boot: 0, block: *block, position: 0, arm });
            let at = |ns: u64| {
                head.created_unix_ns.saturating_add(i64::try_from(ns.saturating_sub(begin_ns)).unwrap_or(i64::MAX))
            };
            let (begin_unix_ns, end_unix_ns) = (at(totals.begin_ns), at(totals.end_ns));
            let length_ns = totals.end_ns.saturating_sub(totals.begin_ns);
            trials.push(Trial {
                seq,
                arm,
                block: *block,
                ended_unix_ns: end_unix_ns,
                window: (length_ns > 0).then_some(Window { begin_unix_ns, end_unix_ns, length_ns }),
                measurements: measurements(totals, length_ns),
                evidence,
                ..Trial::begun(begin_unix_ns)
            });
            *block += 1;
        }
    }
    let has_stacks = trials.iter().flat_map(|trial: &Trial| &trial.evidence).any(|one| one.collector == PROFILE);
    let head = BundleHead { machine: Machine { cpus, ..head.machine }, ..head };
    let (plan, arms) = plan(&names, watched, blocks.values().copied().max().unwrap_or(0));
    BundleData {
        plan_source: "# This bundle was imported from traces of the scheduler: there is no plan to run.\n".to_owned(),
        metrics: metrics().into_iter().map(|metric| (OBSERVED.to_owned(), metric)).collect(),
        collectors: states(has_stacks),
        environment: if facts.is_empty() {
            Vec::new()
        } else {
            vec![EnvironmentReading { session: 0, boot: 0, facts }]
        },
        trials,
        log,
        ending: Some(Ending::Complete),
        ..BundleData::begun(head, plan, Schedule { arms, trials: order })
    }
}

fn states(has_stacks: bool) -> Vec<CollectorState> {
    let seen = SEEN.iter().map(|id| CollectorState { id: (*id).to_owned(), availability: Availability::Ready });
    let not_seen = NOT_SEEN.iter().filter(|(id, _)| !(has_stacks && *id == PROFILE)).map(|(id, why)| CollectorState {
        id: (*id).to_owned(),
        availability: Availability::Unavailable { reason: (*why).to_owned(), remedy: Some(REMEDY.to_owned()) },
    });
    seen.chain(not_seen).collect()
}

/// What all files say alike.
fn facts(traces: &[Trace]) -> Vec<Fact> {
    let of = |key: &str, get: fn(&TraceHead) -> Option<String>| {
        let first = get(&traces.first()?.head)?;
        let is_one = traces.iter().all(|trace| get(&trace.head).as_ref() == Some(&first));
        is_one.then(|| Fact::read(key, first, "the trace"))
    };
    [
        of("kernel.release", |head| head.kernel.clone()),
        of("host.name", |head| head.host.clone()),
        of("trace.format", |head| Some(head.format.clone())),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn plan(names: &[String], watched: &str, windows: u32) -> (Plan, Vec<Arm>) {
    let question = match names {
        [one] => format!("What holds up {watched} in {one}?"),
        [first, others @ ..] => format!("What holds up {watched} in {}, and in {first}?", others.join(", ")),
        [] => String::new(),
    };
    let mut plan = Plan::observational(IMPORTED, question, OBSERVED, IMPORTED);
    plan.design.blocks = windows;
    plan.collectors = SEEN.iter().map(|id| (*id).to_owned()).collect();
    for workload in &mut plan.workloads {
        // More or less of these is neither better nor worse.
        workload.semantics.diagnostics = metrics().into_iter().map(|metric| metric.id).collect();
    }
    let is_one = names.len() < 2;
    if !is_one {
        let levels = names.iter().map(|name| Level::plain(name.as_str())).collect();
        plan.factors.push(Factor { name: FACTOR.to_owned(), levels, workloads: Vec::new(), optional: false });
    }
    let arm = |(id, name): (u32, &String)| Arm {
        id,
        label: name.clone(),
        workload: OBSERVED.to_owned(),
        axes: BTreeMap::new(),
        factors: if is_one { BTreeMap::new() } else { [(FACTOR.to_owned(), Level::plain(name.as_str()))].into() },
        replica: None,
    };
    (plan, (0..).zip(names).map(arm).collect())
}

fn metrics() -> Vec<Metric> {
    let metric = |id: &str, unit: &str, summary: &str| Metric {
        id: id.to_owned(),
        unit: unit.to_owned(),
        better: Direction::Lower,
        summary: summary.to_owned(),
    };
    vec![
        metric("cpus_used", "cpus", "CPUs that the watched tasks used"),
        metric("run_queue_wait_p50_us", "us", "half of the waits for a CPU are no longer"),
        metric("run_queue_wait_p99_us", "us", "99 of 100 waits for a CPU are no longer"),
        metric("switches_per_s", "1/s", "times that the watched tasks left a CPU"),
        metric("preemptions_per_s", "1/s", "those of them in which the task could go on"),
    ]
}

fn measurements(totals: &Totals, length_ns: u64) -> Vec<Measurement> {
    let waits = totals.waits();
    let percentile = |metric: &str, quantile: f64| {
        let us = waits.quantile_ns(quantile).map_or(0.0, |ns| ns as f64 / 1e3);
        Measurement::percentile_of(metric, us, quantile, waits.count() as f64)
    };
    let sum = |of: fn(&crate::account::TaskTally) -> u64| totals.tasks.values().map(of).sum::<u64>();
    let used = match length_ns {
        0 => Measurement::absent("cpus_used", "the window had no length"),
        ns => Measurement::new("cpus_used", sum(|task| task.on_ns) as f64 / ns as f64),
    };
    vec![
        used,
        percentile("run_queue_wait_p50_us", 0.5),
        percentile("run_queue_wait_p99_us", 0.99),
        Measurement::per_second("switches_per_s", sum(|task| task.left), length_ns),
        Measurement::per_second("preemptions_per_s", sum(|task| task.preempted), length_ns),
    ]
}
