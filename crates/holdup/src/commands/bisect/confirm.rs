//! The answer: the culprit and the candidate before it in fresh, interleaved blocks.

use super::worker::Worker;
use crate::commands::searching::{Endless, Planned};
use holdup_model::guest::is_chosen_at_boot;
use holdup_model::search::{Answer, Candidate, Entry};
use holdup_model::{Arm, BundleData, Estimate, MemoryBudget, Observer, Problem, ProblemKind, Verdict};
use holdup_search::{Log, Steps};
use holdup_stats::bisection::Bisection;
use std::collections::{BTreeMap, BTreeSet};

/// The bounds of the number of blocks that the answer may take.
const LEAST_BLOCKS: u32 = 20;
const MOST_BLOCKS: u32 = 300;
/// Of kernels, whose blocks are shared out among sessions: each session boots both anew, which takes minutes under emulation.
const LEAST_BLOCKS_OF_BOOTS: u32 = 10;
const SESSIONS_OF_BOOTS: u32 = 5;

/// Measures the culprit beside its parent, and the tip with and without it where it reverts cleanly.
pub(super) fn confirm(
    worker: &mut Worker<'_>,
    log: &Log,
    search: &Bisection,
    (culprits, probability, step): (&[usize], f64, f64),
    observer: &mut dyn Observer,
) -> Result<Answer, Problem> {
    let begin = log.begin().clone();
    let all = &begin.candidates;
    let (parent, culprit) = (&all[culprits[0] - 1], &all[culprits[culprits.len() - 1]]);
    for candidate in [parent, culprit] {
        worker.prepare(candidate, observer)?;
    }
    let mut values = vec![worker.value(parent), worker.value(culprit)];
    let reverted = revert(worker, all, culprits, observer)?;
    if let Reverted::Built(tree) = &reverted {
        values.extend([worker.value(&all[all.len() - 1]), tree.clone()]);
    }
    let at_boot = is_chosen_at_boot(&worker.key);
    let planned = plan(worker, &values, blocks_wanted(log.entries(), step))?;
    let rate = worker.followed()?.rate.clone();
    let bundle = worker.free_bundle("confirm");
    worker.run(&planned, &bundle, &mut Endless(observer))?;
    let mut data = holdup_bundle::read_numbers(&bundle, &MemoryBudget::default())?;
    if let (Some((rate, per)), Some(used)) = (&rate, planned.plan.workloads.first()) {
        rate.add_to(&mut data, &used.name, per);
    }
    let arms: Vec<&Arm> = planned.schedule.arms.iter().filter(|arm| arm.replica.is_none()).collect();
    let compare = |a: usize, b: usize| -> Result<Option<(Estimate, Verdict)>, Problem> {
        let (Some(a), Some(b)) = (arms.get(a), arms.get(b)) else { return Ok(None) };
        let analysis = holdup_analysis::compare_arms(&data, &a.label, &b.label)?;
        let of_metric = analysis.comparisons.into_iter().find(|c| c.metric.id == begin.metric);
        Ok(of_metric.and_then(|c| Some((c.ratio?, c.verdict))))
    };
    let own = compare(0, 1)?;
    let of_revert = compare(2, 3)?.map(|(ratio, _)| ratio);
    let others = others(worker, search, culprits, &fresh(&data, &arms, &begin.metric), all);
    let differs = match arms[..] {
        [parent, culprit, ..] if at_boot => holdup_analysis::differing_facts(&data, parent.id, culprit.id),
        _ => Vec::new(),
    };
    let measured: BTreeSet<&str> = log.entries().iter().filter_map(measured).collect();
    // A ratio that moved while it was measured is said to have done so.
    let caution = own.as_ref().and_then(|(_, verdict)| match verdict {
        Verdict::Undecided { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    Ok(Answer {
        candidates: culprits.iter().map(|&i| all[i].clone()).collect(),
        parent: parent.clone(),
        of: all.len(),
        metric: begin.metric.clone(),
        better: begin.better,
        look_for: begin.look_for,
        is_commit: worker.repository.is_some(),
        probability,
        ratio: own.map(|(ratio, _)| ratio),
        caution,
        differs,
        reverted: of_revert,
        not_reverted: reverted.why(),
        others,
        merged: worker.repository.as_ref().map_or(Ok(None), |repository| repository.merged(&culprit.name))?,
        trials: search.trials(),
        measured: measured.len(),
        bundle: bundle.display().to_string(),
    })
}

/// The values of the one before and of the culprit, block by block.
fn fresh(data: &BundleData, arms: &[&Arm], metric: &str) -> Vec<(f64, f64)> {
    let [before, culprit, ..] = arms else { return Vec::new() };
    let of = |arm: &Arm| -> BTreeMap<(u32, u32), f64> {
        let trials = data.trials.iter().filter(|trial| trial.is_done() && trial.arm == arm.id);
        trials.filter_map(|trial| Some(((trial.session, trial.block), trial.metric(metric)?))).collect()
    };
    let (before, culprit) = (of(before), of(culprit));
    before.iter().filter_map(|(block, a)| Some((*a, *culprit.get(block)?))).collect()
}

/// Where the trials of the search and the fresh ones make another change likely.
fn others(
    worker: &Worker<'_>,
    search: &Bisection,
    culprits: &[usize],
    fresh: &[(f64, f64)],
    all: &[Candidate],
) -> Vec<String> {
    let (first, last) = (culprits[0], culprits[culprits.len() - 1]);
    let Ok(Some(two)) = search.two_steps_with((first - 1, last), fresh) else { return Vec::new() };
    let is_other = |(from, to): &&(usize, usize)| *to < first || *from >= last;
    let ranges: Vec<(usize, usize)> = two.ranges.iter().filter(is_other).copied().collect();
    worker.ranges(all, &ranges)
}

/// The plan of the answer, with that number of blocks unless the user wants another.
fn plan(worker: &Worker<'_>, values: &[String], wanted: u32) -> Result<Planned, Problem> {
    let at_boot = is_chosen_at_boot(&worker.key);
    let blocks = match at_boot {
        true => wanted.clamp(LEAST_BLOCKS_OF_BOOTS, MOST_BLOCKS).div_ceil(SESSIONS_OF_BOOTS),
        false => wanted.clamp(LEAST_BLOCKS, MOST_BLOCKS),
    };
    let is_of_workload = worker.followed()?.rate.is_none();
    worker.plan_for(values, |overrides| {
        if at_boot && overrides.sessions.is_none() {
            overrides.sessions = Some(SESSIONS_OF_BOOTS);
            // Boots of the same kernel differ no less in the search's own sessions, which cost nothing more.
            overrides.set.push(("aa".to_owned(), "false".to_owned()));
        }
        // A run that stops when it is decided looks at metrics of the workload, and at no evidence.
        if !is_of_workload && overrides.blocks.is_none() {
            overrides.blocks = Some(overrides.max_blocks.take().unwrap_or(blocks));
        }
        // A plan says how many blocks it wants.
        if is_of_workload
            && worker.args.file().is_none()
            && overrides.blocks.is_none()
            && overrides.max_blocks.is_none()
        {
            overrides.max_blocks = Some(blocks);
        }
    })
}

/// Blocks, of trials that are as noisy as those of the search: nine of ten such runs see a step of this ratio.
fn blocks_wanted(entries: &[Entry], step: f64) -> u32 {
    let mut of_candidate: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for entry in entries {
        if let Entry::Trial { candidate, value, .. } = entry {
            of_candidate.entry(candidate).or_default().push(value.ln());
        }
    }
    let (mut squares, mut free) = (0.0, 0.0);
    for values in of_candidate.values() {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        squares += values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
        free += values.len() as f64 - 1.0;
    }
    let variance = squares / f64::max(free, 1.0);
    // Both sides of the ratio are noisy: 2 · (1.96 + 1.28)².
    let wanted = 21.0 * variance / step.ln().powi(2).max(1e-9);
    wanted.ceil() as u32
}

fn measured(entry: &Entry) -> Option<&str> {
    match entry {
        Entry::Trial { candidate, .. } => Some(candidate),
        _ => None,
    }
}

/// The tip without the culprit.
enum Reverted {
    /// What stands for its tree in a plan.
    Built(String),
    /// There is none.
    No(Option<&'static str>),
}

impl Reverted {
    fn why(&self) -> Option<String> {
        match self {
            Reverted::Built(_) => None,
            Reverted::No(why) => why.map(str::to_owned),
        }
    }
}

fn revert(
    worker: &Worker<'_>,
    all: &[Candidate],
    culprits: &[usize],
    observer: &mut dyn Observer,
) -> Result<Reverted, Problem> {
    let (Some(repository), [culprit]) = (&worker.repository, culprits) else { return Ok(Reverted::No(None)) };
    if worker.args.search.kernel_commits {
        return Ok(Reverted::No(Some("of kernels this is not tried")));
    }
    let (tip, culprit) = (&all[all.len() - 1], &all[*culprit]);
    if tip == culprit {
        // Without it the tip is its parent.
        return Ok(Reverted::No(None));
    }
    let build = worker.args.search.build.as_deref();
    match repository.build_reverted(&tip.name, &culprit.name, build, &worker.options, observer) {
        Ok(Some(tree)) => Ok(Reverted::Built(worker.value_of_tree(&tree))),
        Ok(None) => Ok(Reverted::No(Some("it does not revert cleanly at the bad end"))),
        Err(problem) if problem.kind == ProblemKind::Trial => {
            Ok(Reverted::No(Some("the bad end does not build without it")))
        }
        Err(problem) => Err(problem),
    }
}
