//! What a store keeps of a bundle beside the bundle.

use holdup_model::bundle::Ending;
use holdup_model::kept::{Kept, KeptArm, KeptMetric, KeptRun, KeptTrial};
use holdup_model::{Arm, BundleData, Metric, Replica, Trial, TrialStatus};
use holdup_stats::geometric_mean;
use serde_json::json;
use std::collections::BTreeMap;

/// The margin of a metric for which the plan states none, as for comparisons.
const MARGIN: f64 = 0.02;

/// What is kept of a bundle.
pub fn keep(bundle: &BundleData) -> Kept {
    let facts = facts(bundle);
    let fact = |key: &str| facts.get(key).cloned();
    let done = bundle.trials.iter().filter(|t| t.is_done()).count();
    let run = KeptRun {
        run_id: bundle.head.run_id.clone(),
        created_unix_ns: bundle.head.created_unix_ns,
        plan: bundle.plan.name.clone(),
        question: bundle.plan.question.clone(),
        target: bundle.head.target.clone(),
        emulated: bundle.head.emulated.clone(),
        host: fact("host.name").or_else(|| fact("simulated.machine")),
        kernel: fact("kernel.release"),
        server: fact("postgres.version"),
        holdup_version: bundle.head.holdup_version.clone(),
        ending: bundle.ending.as_ref().map(|ending| word(ending).to_owned()),
        trials_done: count(done),
        trials_void: count(bundle.trials.len() - done),
    };
    Kept { run, arms: bundle.schedule.arms.iter().map(|arm| kept_arm(bundle, arm)).collect(), facts }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn word(ending: &Ending) -> &'static str {
    match ending {
        Ending::Complete => "complete",
        Ending::Decided => "decided",
        Ending::Budget => "budget",
        Ending::Interrupted => "interrupted",
        Ending::Failed { .. } => "failed",
    }
}

/// The facts of the first reading and those of the first trial, which knows the server. What differs from trial to trial by
/// itself is no fact about the host.
fn facts(bundle: &BundleData) -> BTreeMap<String, String> {
    const RESTLESS: [&str; 6] = ["host.load_average", "kernel.boot_id", "available", "free", "pid", "started"];
    let first = bundle.environment.first().map(|reading| reading.facts.as_slice()).unwrap_or_default();
    let of_trial = bundle.trials.first().map(|trial| trial.environment_before.as_slice()).unwrap_or_default();
    let mut all = BTreeMap::new();
    for fact in of_trial.iter().chain(first) {
        let is_restless = RESTLESS.iter().any(|part| fact.key.contains(part)) || fact.key == "postgres.postmaster";
        if let (Some(value), false) = (&fact.value, is_restless) {
            all.insert(fact.key.clone(), value.clone());
        }
    }
    all.insert("holdup.version".to_owned(), bundle.head.holdup_version.clone());
    all
}

fn kept_arm(bundle: &BundleData, arm: &Arm) -> KeptArm {
    let done: Vec<&Trial> = bundle.trials.iter().filter(|t| t.arm == arm.id && t.is_done()).collect();
    let metrics = metrics(bundle, &arm.workload);
    let chosen = |id: &str| bundle.plan.metric_choice(&arm.workload, id);
    let primary = metrics.iter().position(|m| chosen(&m.id).is_some_and(|c| c.primary)).unwrap_or(0);
    let kept = |(i, metric): (usize, &&Metric)| {
        let values: Vec<f64> = done.iter().filter_map(|t| t.metric(&metric.id)).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let better = chosen(&metric.id).and_then(|c| c.better).unwrap_or(metric.better);
        (!values.is_empty()).then(|| KeptMetric {
            metric: Metric { better, ..(*metric).clone() },
            is_primary: i == primary,
            margin: chosen(&metric.id).map_or(MARGIN, |c| c.margin),
            trials: count(values.len()),
            mean: geometric_mean(&values).unwrap_or(mean),
            cv: (values.len() > 1 && mean != 0.0).then(|| variance.sqrt() / mean.abs()),
        })
    };
    KeptArm {
        arm: arm.id,
        label: arm.label.clone(),
        workload: arm.workload.clone(),
        design: design(bundle, &arm.workload),
        replica: arm.replica.map(|replica| {
            match replica {
                Replica::Same => "same",
                Replica::Unobserved => "unobserved",
            }
            .to_owned()
        }),
        metrics: metrics.iter().enumerate().filter_map(kept).collect(),
    }
}

/// The metrics of a workload, each once.
fn metrics<'a>(bundle: &'a BundleData, workload: &str) -> Vec<&'a Metric> {
    let mut all: Vec<&Metric> = Vec::new();
    for (_, metric) in bundle.metrics.iter().filter(|(w, _)| w == workload) {
        if all.iter().all(|m| m.id != metric.id) {
            all.push(metric);
        }
    }
    all
}

fn void_reason(trial: &Trial) -> Option<String> {
    match &trial.status {
        TrialStatus::Done => None,
        TrialStatus::Void { reason } => Some(reason.clone()),
    }
}

/// A number that two runs share whose arms of the same label measure the same.
fn design(bundle: &BundleData, workload: &str) -> String {
    let used = bundle.plan.workload(workload);
    let settings: Vec<_> = bundle.plan.settings.iter().map(|(name, level)| (name, &level.value)).collect();
    let what = json!([
        used.map(|w| (&w.kind, &w.parameters)),
        settings,
        bundle.plan.design.duration_ns,
        bundle.plan.design.warmup_ns,
    ]);
    // FNV-1a with 64 bits: it recognises designs, and keeps no one from forging one.
    let hash = what
        .to_string()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{hash:016x}")
}

/// The trials of a bundle for the columns of a store, and the ids of the metrics of each workload that their values are of.
pub fn trials(bundle: &BundleData) -> (BTreeMap<String, Vec<String>>, Vec<KeptTrial>) {
    let mut ids: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for arm in &bundle.schedule.arms {
        let of_workload = || metrics(bundle, &arm.workload).into_iter().map(|m| m.id.clone()).collect();
        ids.entry(arm.workload.clone()).or_insert_with(of_workload);
    }
    let workloads: BTreeMap<u32, &str> = bundle.schedule.arms.iter().map(|a| (a.id, a.workload.as_str())).collect();
    let kept = |trial: &Trial| {
        let metrics = workloads.get(&trial.arm).and_then(|workload| ids.get(*workload));
        KeptTrial {
            trial: trial.seq,
            arm: trial.arm,
            session: trial.session,
            block: trial.block,
            void_reason: void_reason(trial),
            started_unix_ns: trial.started_unix_ns,
            window_ns: trial.window.as_ref().map(|w| w.length_ns),
            values: metrics.into_iter().flatten().map(|id| trial.metric(id)).collect(),
        }
    };
    let trials = bundle.trials.iter().map(kept).collect();
    (ids, trials)
}
