//! The walk of a search of settings: ask the engine for a block, measure it, note it down, until it ends.

use crate::log::Log;
use holdup_model::tuning::{Begin, Beliefs, Bound, Entry, Guard, Interaction, MainEffect, Seen, Tested};
use holdup_model::{Direction, Event, Observer, Problem, text};
use holdup_stats::tuning::{self, Ended, Factor, Next, Options, Phase, Point, Space, Tuning};
use std::collections::BTreeSet;

/// What carries out the blocks.
pub trait Blocks {
    /// Measures each point and the settings that were found once, in random order, and adds the block to the log.
    ///
    /// # Errors
    /// When it is interrupted, the host fails or nothing could be measured.
    fn measure(
        &mut self,
        points: &[Vec<u8>],
        phase: &str,
        log: &mut Log<Entry>,
        observer: &mut dyn Observer,
    ) -> Result<(), Problem>;
}

/// The share of the budget that the search may take; the rest is for the fresh blocks that confirm it.
const SEARCH_SHARE: f64 = 0.6;
/// Points of a block beside the settings that were found.
const POINTS: u32 = 7;
/// Blocks in a row in which the settings that were found could not be measured.
const MOST_FAILED: u32 = 3;

/// Measures until the search ends, and says how.
///
/// # Errors
/// When it is interrupted, the host fails, the log cannot be written, or the settings that were found do not run.
pub fn tune(
    log: &mut Log<Entry>,
    blocks: &mut dyn Blocks,
    observer: &mut dyn Observer,
) -> Result<(Tuning, Ended), Problem> {
    let mut failed = 0;
    loop {
        let search = tuning(log.begin(), log.entries())?;
        let (points, phase, of) = match search.next() {
            Next::Done { reason } => return Ok((search, reason)),
            Next::Measure { points, phase, of } => (points, phase, of),
        };
        observer.event(Event::Step(&position(log, &search, phase, of)));
        let points: Vec<Vec<u8>> = points.into_iter().map(|point| point.0).collect();
        blocks.measure(&points, phase_name(phase), log, observer)?;
        guards_hold(log)?;
        failed = if is_usable(log.entries().last()) { 0 } else { failed + 1 };
        if failed == MOST_FAILED {
            return Err(why_not(log.entries().last()));
        }
    }
}

/// A guard that the settings that were found break leaves nothing to choose.
fn guards_hold(log: &Log<Entry>) -> Result<(), Problem> {
    let begin = log.begin();
    let entries = of_host(log.entries());
    let found = entries.iter().flat_map(|entry| match entry {
        Entry::Block { seen, .. } => seen.as_slice(),
        _ => &[],
    });
    let found: Vec<&Seen> = found.filter(|seen| is_found(seen) && seen.value.is_some()).collect();
    let is_absent =
        |at: usize| !found.is_empty() && found.iter().all(|seen| seen.guards.get(at).is_none_or(Option::is_none));
    if let Some(at) = (0..begin.guards.len()).find(|at| is_absent(*at)) {
        let what = format!("--guard {}", begin.guards[at].metric);
        return Err(Problem::usage(what, "the trials do not measure it").hint("name another metric, or longer trials"));
    }
    match begin.guards.iter().zip(allowed(begin, entries)).find(|(_, share)| *share < 0.0) {
        None => Ok(()),
        Some((guard, share)) => {
            let why = format!("the settings that were found break it already, by {:.1} %", -share * 100.0);
            Err(Problem::usage(format!("--guard {}", guard.metric), why).hint("name a bound that they keep"))
        }
    }
}

/// The words for a phase.
fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Screening => "each setting alone",
        Phase::Interactions => "settings together",
        Phase::Racing => "the best against each other",
        Phase::Pruning => "the best without one of its settings",
    }
}

fn position(log: &Log<Entry>, search: &Tuning, phase: Phase, of: Option<u32>) -> String {
    let begin = log.begin();
    let mut words = format!("{}: {} so far", phase_name(phase), text::count(search.trials() as usize, "trial"));
    if let Some(of) = of {
        words.push_str(&format!(", {} left in this phase", text::count(of as usize, "block")));
    }
    let outcome = search.outcome();
    // Before much is measured, the best is a guess.
    if search.trials() > 0 && outcome.gain_log > 2.0 * outcome.gain_se_log && !outcome.best.is_default() {
        let gain = (outcome.gain_log.exp() - 1.0) * 100.0;
        words.push_str(&format!("; best so far {gain:+.1} % ({})", settings_of(begin, &outcome.best.0).join(", ")));
    }
    words
}

/// What a point sets, as `NAME=LEVEL`.
pub fn settings_of(begin: &Begin, levels: &[u8]) -> Vec<String> {
    let chosen = begin.tried.iter().zip(levels).filter(|(_, level)| **level > 0);
    chosen.map(|(tried, level)| format!("{}={}", tried.name, tried.levels[usize::from(*level)].label)).collect()
}

fn is_usable(entry: Option<&Entry>) -> bool {
    matches!(entry, Some(Entry::Block { seen, .. })
        if seen.iter().any(|s| is_found(s) && s.value.is_some()) && seen.len() > 1)
}

/// True if a trial had the settings that were found.
fn is_found(seen: &Seen) -> bool {
    seen.levels.iter().all(|level| *level == 0)
}

fn why_not(entry: Option<&Entry>) -> Problem {
    let seen = match entry {
        Some(Entry::Block { seen, .. }) => seen.as_slice(),
        _ => &[],
    };
    let why = seen.iter().find(|s| is_found(s)).and_then(|s| s.failed.clone());
    let why = why.unwrap_or_else(|| "no trial of them counts".to_owned());
    Problem::host(
        "the settings that were found",
        format!("they could not be measured in {MOST_FAILED} blocks in a row: {why}"),
    )
}

/// The lines since the host was named last: those of another host say nothing about this one.
pub fn of_host(entries: &[Entry]) -> &[Entry] {
    &entries[entries.iter().rposition(|entry| matches!(entry, Entry::Host { .. })).unwrap_or(0)..]
}

/// The search as its log has it.
///
/// # Errors
/// When an option is out of its range.
pub fn tuning(begin: &Begin, entries: &[Entry]) -> Result<Tuning, Problem> {
    let refused = |e: holdup_stats::NoEstimate| Problem::usage("the search", e.reason);
    let of_host = of_host(entries);
    let restart_s = 2.0;
    let factors = begin.tried.iter().map(|tried| Factor {
        levels: u8::try_from(tried.levels.len()).unwrap_or(u8::MAX),
        is_ordered: tried.is_ordered,
        change_cost_s: if tried.restarts { restart_s } else { 0.0 },
    });
    let space = Space { factors: factors.collect(), conflicts: Vec::new() };
    let options = Options {
        seed: begin.seed,
        most_trials: most_trials(begin, of_host),
        least_gain_log: begin.least.ln_1p(),
        guards_log: allowed(begin, of_host).iter().map(|share| share.max(0.0).ln_1p()).collect(),
        points_per_block: POINTS,
    };
    let mut search = Tuning::new(space, options).map_err(refused)?;
    for entry in of_host {
        if let Entry::Block { seen, .. } = entry
            && is_usable(Some(entry))
        {
            let block: Vec<(Point, tuning::Seen)> = seen.iter().map(|s| of_trial(begin, s)).collect();
            search.add_block(&block).map_err(refused)?;
        }
    }
    Ok(search)
}

/// How much worse each guard may get than with the settings that were found, as a share, from the trials so far.
fn allowed(begin: &Begin, entries: &[Entry]) -> Vec<f64> {
    // Until it was measured, a bound that is a value says nothing.
    const UNKNOWN: f64 = 0.05;
    let of_blocks = entries.iter().filter_map(|entry| match entry {
        Entry::Block { seen, .. } => Some(seen),
        _ => None,
    });
    let found: Vec<&Seen> = of_blocks.flatten().filter(|seen| is_found(seen)).collect();
    let of_guard = |(at, guard): (usize, &Guard)| {
        let values: Vec<f64> = found.iter().filter_map(|s| s.guards.get(at).copied().flatten()).collect();
        match (guard.bound, holdup_stats::geometric_mean(&values)) {
            (Bound::Share(share), _) => share,
            (Bound::Value(_), Some(mean)) => guard.allowed(mean),
            (Bound::Value(_), None) => UNKNOWN,
        }
    };
    begin.guards.iter().enumerate().map(of_guard).collect()
}

/// A trial as the engine takes it: larger is better, and for guards worse.
fn of_trial(begin: &Begin, seen: &Seen) -> (Point, tuning::Seen) {
    let turned = |value: f64, up: Direction, better: Direction| if up == better { value.ln() } else { -value.ln() };
    let value_log = seen.value.filter(|v| *v > 0.0).map(|v| turned(v, Direction::Higher, begin.better));
    let guards = begin.guards.iter().zip(&seen.guards);
    let guards_log = guards
        .map(|(guard, value)| value.filter(|v| *v > 0.0).map(|v| turned(v, Direction::Lower, guard.better)))
        .collect();
    (Point(seen.levels.clone()), tuning::Seen { value_log, guards_log })
}

/// What a search believes, in the words of its log.
pub fn beliefs(begin: &Begin, entries: &[Entry], search: &Tuning) -> Beliefs {
    let outcome = search.outcome();
    let ratio = |log: f64| if begin.better == Direction::Higher { log.exp() } else { (-log).exp() };
    let effects = outcome.main_effects.iter().map(|e| MainEffect {
        tried: e.factor,
        level: e.level,
        ratio: (!outcome.infeasible.contains(&(e.factor, e.level))).then(|| (ratio(e.effect_log), e.se_log)),
        trials: e.trials,
    });
    let interactions = outcome.interactions.iter().map(|i| Interaction {
        of: [i.a, i.b],
        ratio: ratio(i.effect_log),
        se_log: i.se_log,
    });
    let tested = outcome.candidates.iter().filter(|c| !c.point.is_default()).map(|c| Tested {
        levels: c.point.0.clone(),
        blocks: c.blocks,
        ratio: (ratio(c.gain_log), c.gain_se_log),
        is_eligible: c.is_eligible,
    });
    let seen = entries.iter().filter_map(|entry| match entry {
        Entry::Block { seen, .. } => Some(seen),
        _ => None,
    });
    Beliefs {
        effects: effects.collect(),
        interactions: interactions.collect(),
        tested: tested.collect(),
        trials: search.trials(),
        points: seen.flatten().map(|s| &s.levels).collect::<BTreeSet<_>>().len(),
        best: outcome.best.0,
    }
}

/// How many trials fit into the search's share of the budget, at the pace so far.
fn most_trials(begin: &Begin, entries: &[Entry]) -> u32 {
    // Until a block was measured, a trial is taken to last this long.
    const GUESS_S: f64 = 5.0;
    let (mut spent_s, mut trials) = (0.0, 0_usize);
    for entry in entries {
        if let Entry::Block { spent_s: s, seen, .. } = entry {
            spent_s += s;
            trials += seen.len();
        }
    }
    let each_s = if trials == 0 { GUESS_S } else { spent_s / trials as f64 };
    let left = (begin.budget_s * SEARCH_SHARE - spent_s).max(0.0) / each_s.max(1e-3);
    trials.saturating_add(left as usize).min(100_000) as u32
}
