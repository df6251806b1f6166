//! The walk of a search: ask the engine, measure, note it down, until it is decided.

use crate::log::Log;
use holdup_model::search::{Begin, Candidate, Entry, short};
use holdup_model::{Event, Observer, Problem, ProblemKind};
use holdup_stats::bisection::{Bisection, Candidates, Costs, Next, Options, TrialCost};
use std::collections::BTreeMap;

/// What carries out the steps.
pub trait Steps {
    /// Makes a candidate ready to be measured; the seconds that it took, if something had to be built.
    ///
    /// # Errors
    /// When it cannot be made. Of the kind [`ProblemKind::Trial`] if the reason is the candidate, which is skipped then.
    fn prepare(&mut self, candidate: &Candidate, observer: &mut dyn Observer) -> Result<Option<f64>, Problem>;

    /// Runs trials of a candidate; each that counts is added to the log when it ends.
    ///
    /// # Errors
    /// When no trial counts. Of the kind [`ProblemKind::Trial`] if the reason is the candidate, which is skipped then.
    fn measure(
        &mut self,
        candidate: &Candidate,
        trials: u32,
        log: &mut Log,
        observer: &mut dyn Observer,
    ) -> Result<(), Problem>;

    /// These are likely to be measured next, the likeliest first.
    fn expect(&mut self, _likely: &[&Candidate]) {}

    /// Of what was built no other candidates than these are likely to be measured again.
    ///
    /// # Errors
    /// When what was built for others cannot be removed.
    fn keep(&mut self, _kept: &[&str]) -> Result<(), Problem> {
        Ok(())
    }
}

/// A trial takes at least this long: the engine divides by it.
const LEAST_S: f64 = 1e-3;

/// Measures until the search ends, and says how.
///
/// # Errors
/// When it is interrupted, the host fails, the log cannot be written, or an end of the range cannot be measured.
pub fn walk(
    log: &mut Log,
    options: &Options,
    steps: &mut dyn Steps,
    observer: &mut dyn Observer,
) -> Result<(Bisection, Next), Problem> {
    loop {
        let search = state(log.begin(), log.entries(), options)?;
        let next = search.next();
        let Next::Measure { candidate: index, trials, .. } = next else { return Ok((search, next)) };
        let candidates = &log.begin().candidates;
        let is_end = index == 0 || index + 1 == candidates.len();
        let candidate = candidates[index].clone();
        steps.keep(&kept(&search, index, candidates))?;
        observer.event(Event::Step(&position(&search, &candidate, log.begin())));
        let likely = likely_next(&search.posterior(), index);
        let stepped = step((&candidate, &likely), trials, log, steps, observer);
        match stepped {
            Ok(()) => {}
            Err(problem) if problem.kind == ProblemKind::Trial && !is_end => {
                observer.event(Event::Note(&format!("{} is skipped: {}", candidate.name, problem.why)));
                log.add(Entry::Skipped { candidate: candidate.name, why: problem.why })?;
            }
            Err(problem) if problem.kind == ProblemKind::Trial => {
                let which = if index == 0 { "good" } else { "bad" };
                let what = format!("the {which} end {}: {}", candidate.name, problem.what);
                let hint = "both ends of the range must build and run";
                return Err(Problem { what, ..problem }.of_kind(ProblemKind::Host).hint(hint));
            }
            Err(problem) => return Err(problem),
        }
    }
}

/// The next one, both ends, and all from the one before the credible ones to the last of them.
fn kept<'a>(search: &Bisection, next: usize, candidates: &'a [Candidate]) -> Vec<&'a str> {
    let credible = search.credible();
    let from = credible.first().map_or(0, |first| first.saturating_sub(1));
    let to = credible.last().map_or(candidates.len() - 1, |last| *last);
    let all = candidates.iter().enumerate();
    let kept = all.filter(|(i, _)| (from..=to).contains(i) || [0, next, candidates.len() - 1].contains(i));
    kept.map(|(_, candidate)| candidate.name.as_str()).collect()
}

/// The candidates that halve what is left if this one turns out good, and if it turns out bad: the likelier first.
fn likely_next(posterior: &[f64], index: usize) -> Vec<usize> {
    let last = posterior.len() - 1;
    if index == 0 || index == last {
        // Both ends come first, then the middle.
        let other = last - index;
        return std::iter::once(other).chain(half_way(posterior, 0, last)).collect();
    }
    // The culprit is the first bad one.
    let is_bad: f64 = posterior[..=index].iter().sum();
    let is_good: f64 = posterior[index + 1..].iter().sum();
    let (below, above) = (half_way(posterior, 0, index), half_way(posterior, index, last));
    let (first, second) = if is_bad > is_good { (below, above) } else { (above, below) };
    first.into_iter().chain(second).collect()
}

/// Where the probability of `(from, to]` is halved; `None` if that is at one of its ends.
fn half_way(posterior: &[f64], from: usize, to: usize) -> Option<usize> {
    let half = posterior[from + 1..=to].iter().sum::<f64>() / 2.0;
    let mut sum = 0.0;
    let at = (from + 1..=to).find(|i| {
        sum += posterior[*i];
        sum >= half
    });
    at.filter(|at| *at < to)
}

fn step(
    (candidate, likely): (&Candidate, &[usize]),
    trials: u32,
    log: &mut Log,
    steps: &mut dyn Steps,
    observer: &mut dyn Observer,
) -> Result<(), Problem> {
    if let Some(build_s) = steps.prepare(candidate, observer)? {
        log.add(Entry::Built { candidate: candidate.name.clone(), build_s })?;
    }
    let all = &log.begin().candidates;
    let likely: Vec<Candidate> = likely.iter().map(|i| all[*i].clone()).collect();
    steps.expect(&likely.iter().collect::<Vec<_>>());
    steps.measure(candidate, trials, log, observer)
}

/// Where the search stands, in a line.
fn position(search: &Bisection, candidate: &Candidate, begin: &Begin) -> String {
    let of = begin.candidates.len();
    let left = search.credible().len();
    let name = short(&candidate.name);
    let trials = search.trials();
    match trials {
        0 => format!("{of} candidates; first both ends: {name}"),
        _ => format!("{trials} trials, the change is among {left} of {of} (95 %); next: {name} {}", candidate.about),
    }
}

/// The search as its log has it.
///
/// # Errors
/// When the candidates are fewer than two, or an option is out of its range.
pub fn state(begin: &Begin, entries: &[Entry], options: &Options) -> Result<Bisection, Problem> {
    let refused = |e: holdup_stats::NoEstimate| Problem::usage("the search", e.reason);
    let index: BTreeMap<&str, usize> =
        begin.candidates.iter().enumerate().map(|(i, candidate)| (candidate.name.as_str(), i)).collect();
    // Trials of another host say nothing about this one.
    let moved = entries.iter().rposition(|entry| matches!(entry, Entry::Host { .. })).unwrap_or(0);
    let costs = Costs::Same(cost(entries));
    let candidates = Candidates { n: begin.candidates.len(), prior_weights: None, costs };
    let mut search = Bisection::new(candidates, *options).map_err(refused)?;
    let mut last = "";
    for entry in &entries[moved..] {
        if let Entry::Trial { candidate, value, bundle, .. } = entry
            && let Some(&i) = index.get(candidate.as_str())
        {
            if bundle != last {
                search.end_session();
                last = bundle;
            }
            search.observe(i, *value).map_err(refused)?;
        }
    }
    // Last, because what was measured before it was skipped still counts.
    for entry in entries {
        if let Entry::Skipped { candidate, .. } = entry
            && let Some(&i) = index.get(candidate.as_str())
        {
            search.skip(i).map_err(refused)?;
        }
    }
    // Each step is a separate run.
    search.end_session();
    Ok(search)
}

/// What trials cost, from what they cost so far. The first trial of a bundle pays for the session.
fn cost(entries: &[Entry]) -> TrialCost {
    let mean = |values: Vec<f64>| match values.len() {
        0 => None,
        n => Some(values.iter().sum::<f64>() / n as f64),
    };
    let (mut builds, mut first, mut later) = (Vec::new(), Vec::new(), Vec::new());
    let mut last = "";
    for entry in entries {
        match entry {
            Entry::Built { build_s, .. } => builds.push(*build_s),
            Entry::Trial { bundle, spent_s, .. } => {
                let of = if bundle == last { &mut later } else { &mut first };
                of.push(*spent_s);
                last = bundle;
            }
            _ => {}
        }
    }
    let first = mean(first).unwrap_or(1.0);
    // Until a bundle has two trials, a session is taken to cost half of its first.
    let run_s = mean(later).unwrap_or(first / 2.0).clamp(LEAST_S, first.max(LEAST_S));
    TrialCost { build_s: mean(builds).unwrap_or(0.0), boot_s: (first - run_s).max(0.0), run_s }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::progress::Silent;
    use holdup_stats::bisection::Finding;

    fn begin(n: usize) -> Begin {
        let candidate = |i: usize| Candidate { name: format!("c{i}"), about: String::new(), date: String::new() };
        Begin { candidates: (0..n).map(candidate).collect(), ..crate::log::tests::begin() }
    }

    /// A world in which candidate 37 slows the program by 5 %; every fourth does not build, nor does 36.
    struct Made {
        trials: usize,
        stop_at: usize,
    }

    impl Steps for Made {
        fn prepare(&mut self, candidate: &Candidate, _: &mut dyn Observer) -> Result<Option<f64>, Problem> {
            let index: usize = candidate.name[1..].parse().unwrap();
            match index % 4 == 2 || index == 36 {
                true => Err(Problem::trial("building", "it does not compile")),
                false => Ok(Some(1.0)),
            }
        }

        fn measure(
            &mut self,
            candidate: &Candidate,
            trials: u32,
            log: &mut Log,
            _: &mut dyn Observer,
        ) -> Result<(), Problem> {
            let index: usize = candidate.name[1..].parse().unwrap();
            for _ in 0..trials {
                if self.trials == self.stop_at {
                    return Err(Problem::interrupted("the search"));
                }
                self.trials += 1;
                let level = if index >= 37 { 1.05 } else { 1.0 };
                let value = level * (1.0 + 0.005 * (self.trials as f64 * 2.4).sin());
                let trial = Entry::Trial {
                    candidate: candidate.name.clone(),
                    value,
                    bundle: String::new(),
                    spent_s: 1.0,
                    ended_unix_ns: 0,
                };
                log.add(trial)?;
            }
            Ok(())
        }
    }

    #[test]
    fn a_search_that_is_interrupted_at_any_trial_ends_as_one_that_is_not() {
        let above = tempfile::tempdir().unwrap();
        for stop_at in [0, 1, 5, 9, usize::MAX] {
            let folder = above.path().join(stop_at.to_string());
            let mut steps = Made { trials: 0, stop_at };
            let mut log = Log::create(&folder, begin(101)).unwrap();
            let mut ended = walk(&mut log, &Options::default(), &mut steps, &mut Silent);
            if stop_at < usize::MAX {
                assert_eq!(ended.unwrap_err().kind, ProblemKind::Interrupted);
                drop(log);
                steps.stop_at = usize::MAX;
                log = Log::open(&folder).unwrap();
                ended = walk(&mut log, &Options::default(), &mut steps, &mut Silent);
            }
            let Next::Done(Finding::Culprit { candidates, .. }) = ended.unwrap().1 else { panic!("nobody is named") };
            // 36 does not build, so it cannot be separated from 37.
            assert_eq!(candidates, [36, 37]);
        }
    }

    #[test]
    fn the_likely_next_candidates_halve_what_is_left_on_both_sides() {
        let even = [0.0, 0.25, 0.25, 0.25, 0.25, 0.0, 0.0];
        assert_eq!(likely_next(&even, 0), [6, 2]);
        assert_eq!(likely_next(&even, 6), [0, 2]);
        assert_eq!(likely_next(&even, 3), [2, 4]);
        let left = [0.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.4, 0.1];
        assert_eq!(likely_next(&left, 4), [6, 2]);
        assert_eq!(likely_next(&left, 6), [5], "7 alone is left above");
    }

    #[test]
    fn an_end_that_does_not_build_is_an_error() {
        let above = tempfile::tempdir().unwrap();
        let mut log = Log::create(&above.path().join("s"), begin(103)).unwrap();
        let mut steps = Made { trials: 0, stop_at: usize::MAX };
        let problem = walk(&mut log, &Options::default(), &mut steps, &mut Silent).unwrap_err();
        assert!(problem.what.starts_with("the bad end c102"), "{problem}");
    }

    #[test]
    fn trials_of_another_host_do_not_count() {
        let trial = |candidate: &str, value| Entry::Trial {
            candidate: candidate.into(),
            value,
            bundle: "a".into(),
            spent_s: 2.0,
            ended_unix_ns: 0,
        };
        let host = |host: &str| Entry::Host { host: host.into() };
        let entries = [host("a"), trial("c0", 1.0), trial("c0", 1.0), host("b"), trial("c4", 2.0)];
        assert_eq!(state(&begin(5), &entries, &Options::default()).unwrap().trials(), 1);
    }
}
