//! The answer: the culprit and the candidate before it in fresh, interleaved blocks.

use super::hands::Worker;
use holdup_model::search::{Answer, Candidate, Entry};
use holdup_model::{Arm, Estimate, Event, Observer, Problem, ProblemKind, Verdict};
use holdup_search::{Hands, Log, state};
use std::collections::BTreeSet;

/// Measures the culprit beside its parent, and the tip with and without it where it reverts cleanly.
pub(super) fn confirm(
    worker: &mut Worker<'_>,
    log: &mut Log,
    culprits: &[usize],
    probability: f64,
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
    let laid = worker.lay(&values, |_| {})?;
    let bundle = worker.free_bundle("confirm");
    worker.run(&laid, &bundle, &mut Notes(observer))?;
    let data = holdup_store::read(&bundle)?;
    let arms: Vec<&Arm> = laid.schedule.arms.iter().filter(|arm| arm.replica.is_none()).collect();
    let compare = |a: usize, b: usize| -> Result<Option<(Estimate, Verdict)>, Problem> {
        let (Some(a), Some(b)) = (arms.get(a), arms.get(b)) else { return Ok(None) };
        let analysis = holdup_analysis::compare_arms(&data, &a.label, &b.label)?;
        let of_metric = analysis.comparisons.into_iter().find(|c| c.metric.id == begin.metric);
        Ok(of_metric.and_then(|c| Some((c.ratio?, c.verdict))))
    };
    let own = compare(0, 1)?;
    let of_revert = compare(2, 3)?.map(|(ratio, _)| ratio);
    let search = state(&begin, log.entries(), &worker.args.options(begin.better))?;
    let measured: BTreeSet<&str> = log.entries().iter().filter_map(measured).collect();
    let is_confirmed = own.as_ref().is_some_and(|(_, verdict)| *verdict == Verdict::Different);
    Ok(Answer {
        candidates: culprits.iter().map(|&i| all[i].clone()).collect(),
        parent: parent.clone(),
        of: all.len(),
        metric: begin.metric.clone(),
        better: begin.better,
        key: begin.key.clone(),
        is_commit: worker.repository.is_some(),
        probability,
        ratio: own.map(|(ratio, _)| ratio),
        is_confirmed,
        reverted: of_revert,
        not_reverted: reverted.why(),
        merged: worker.repository.as_ref().map_or(Ok(None), |repository| repository.merged(&culprit.name))?,
        trials: search.trials(),
        measured: measured.len(),
        bundle: bundle.display().to_string(),
    })
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

/// The run of the answer shows its trials, and not its end: more comes after it.
struct Notes<'a>(&'a mut dyn Observer);

impl Observer for Notes<'_> {
    fn event(&mut self, event: Event<'_>) {
        if !matches!(event, Event::End) {
            self.0.event(event);
        }
    }
}
