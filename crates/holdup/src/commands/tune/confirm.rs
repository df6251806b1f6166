//! The answer: the winner in fresh, interleaved blocks, and what each of its settings adds.

use super::worker::{ALL, Measured, WINNER, Worker, arm_of, sets};
use crate::commands::searching::{Endless, Planned};
use holdup_model::bundle::BundleData;
use holdup_model::tuning::{Answer, Begin, Confirmed, Entry};
use holdup_model::{Comparison, Direction, Estimate, Event, MemoryBudget, Observer, Problem, Verdict};
use holdup_search::{Log, beliefs, of_host};
use holdup_stats::tuning::Tuning;
use std::path::Path;
use std::time::Instant;

/// The name of the profile that is the result, and of its file.
const NAME: &str = "tuned";
/// The bounds of the number of blocks.
const BLOCKS: std::ops::RangeInclusive<u32> = 6..=60;
/// The share of what is left of the budget that measuring single settings may take.
const PRUNE_SHARE: f64 = 0.4;

type Shares = Vec<(usize, u8, Option<Estimate>)>;

/// The answer of a search that found nothing better.
pub(super) fn nothing(log: &Log<Entry>, search: &Tuning) -> Answer {
    Answer {
        levels: vec![0; log.begin().tried.len()],
        confirmed: None,
        beside: Vec::new(),
        shares: Vec::new(),
        beliefs: beliefs(log.begin(), log.entries(), search),
        bundle: None,
        profile: None,
    }
}

/// Measures the winner without each of its settings in fresh blocks; leaves out those that are not seen to add anything.
pub(super) fn prune(
    worker: &Worker<'_>,
    log: &mut Log<Entry>,
    levels: &[u8],
    observer: &mut dyn Observer,
) -> Result<(Vec<u8>, Shares), Problem> {
    let done = of_host(log.entries()).iter().rev().find_map(|entry| match entry {
        Entry::Pruned { levels, shares, .. } => Some((levels.clone(), shares.clone())),
        _ => None,
    });
    if let Some(done) = done {
        return Ok(done);
    }
    let begun = Instant::now();
    let begin = log.begin().clone();
    let set: Vec<usize> = (0..levels.len()).filter(|at| levels[*at] > 0).collect();
    let (mut left, mut shares) = (levels.to_vec(), Shares::new());
    if set.len() > 1 {
        observer.event(Event::Step("found; now what each setting adds, in fresh blocks"));
        let without =
            |at: usize| levels.iter().enumerate().map(|(i, l)| if i == at { 0 } else { *l }).collect::<Vec<u8>>();
        let name_without = |at: usize| format!("without-{}", at + 1);
        let mut measured = vec![Measured { name: WINNER.to_owned(), sets: sets(&begin, levels) }];
        for &at in &set {
            measured.push(Measured { name: name_without(at), sets: sets(&begin, &without(at)) });
        }
        let blocks = blocks(worker, log, measured.len(), PRUNE_SHARE)?;
        let (compared, bundle) = worker.compare(
            &begin,
            (&measured, &[]),
            (false, "shares"),
            |o| fixed(o, blocks, false),
            &mut Endless(observer),
        )?;
        let data = holdup_bundle::read_numbers(&bundle, &MemoryBudget::default())?;
        for &at in &set {
            // The winner over the profile without it is what it adds.
            let all = comparisons(&data, &compared, &name_without(at), WINNER)?;
            let ratio = of_metric(&all, &begin.metric).and_then(|c| c.ratio.clone());
            // Without a ratio nothing runs without it.
            if ratio.as_ref().is_some_and(|ratio| !pays(&begin, ratio)) && !helps_a_guard(&begin, &all) {
                left[at] = 0;
            }
            shares.push((at, levels[at], ratio));
        }
        if left.iter().all(|level| *level == 0) {
            // Together they won, and none can be seen to matter alone: the likeliest stays.
            let gain = |share: &&(usize, u8, Option<Estimate>)| {
                share.2.as_ref().map_or(0.0, |ratio| turned(begin.better, ratio.value.ln()))
            };
            if let Some((at, ..)) = shares.iter().max_by(|a, b| gain(a).total_cmp(&gain(b))) {
                left[*at] = levels[*at];
            }
        }
    }
    let spent_s = begun.elapsed().as_secs_f64();
    log.add(Entry::Pruned { levels: left.clone(), shares: shares.clone(), spent_s })?;
    Ok((left, shares))
}

/// The logarithm of a ratio, turned so that larger is better.
fn turned(better: Direction, log_ratio: f64) -> f64 {
    if better == Direction::Higher { log_ratio } else { -log_ratio }
}

/// The end of an interval that speaks least for the better, as [`turned`] has it.
fn least(better: Direction, ratio: &Estimate) -> f64 {
    turned(better, if better == Direction::Higher { ratio.low.ln() } else { ratio.high.ln() })
}

/// True if a setting is seen to add something: its interval excludes 1, or it adds what pays and hardly takes away.
fn pays(begin: &Begin, ratio: &Estimate) -> bool {
    let pays = begin.least.ln_1p();
    let (value, low) = (turned(begin.better, ratio.value.ln()), least(begin.better, ratio));
    low > 0.0 || (value >= pays && low >= -pays)
}

/// True if a guard is better with a setting than without it.
fn helps_a_guard(begin: &Begin, all: &[Comparison]) -> bool {
    begin.guards.iter().any(|guard| {
        let ratio = of_metric(all, &guard.metric).and_then(|c| c.ratio.as_ref());
        ratio.is_some_and(|ratio| least(guard.better, ratio) > 0.0)
    })
}

/// Measures the winner against the settings that were found, and beside the profiles that were named. Where settings were
/// left out, the winner that still has them runs too: if they are missed, it is the answer.
pub(super) fn confirm(
    worker: &Worker<'_>,
    log: &Log<Entry>,
    search: &Tuning,
    (mut levels, shares): (Vec<u8>, Shares),
    observer: &mut dyn Observer,
) -> Result<Answer, Problem> {
    observer.event(Event::Step("now against the settings that were found, in fresh blocks"));
    let begin = log.begin();
    let mut before = levels.clone();
    shares.iter().for_each(|(at, level, _)| before[*at] = *level);
    let mut measured = vec![Measured { name: WINNER.to_owned(), sets: sets(begin, &levels) }];
    if before != levels {
        measured.push(Measured { name: ALL.to_owned(), sets: sets(begin, &before) });
    }
    // Those, the settings that were found twice, and what is beside them.
    let blocks = blocks(worker, log, 2 + measured.len() + worker.beside().len(), 1.0)?;
    let (compared, bundle) = worker.compare(
        begin,
        (&measured, worker.beside()),
        (true, "confirm"),
        |o| fixed(o, blocks, true),
        &mut Endless(observer),
    )?;
    let data = holdup_bundle::read_numbers(&bundle, &MemoryBudget::default())?;
    let found = Worker::name_of_found(begin);
    let mut winner = WINNER;
    if before != levels {
        let all = comparisons(&data, &compared, WINNER, ALL)?;
        let missed = of_metric(&all, &begin.metric).and_then(|c| c.ratio.as_ref());
        if missed.is_some_and(|ratio| least(begin.better, ratio) > 0.0) {
            (winner, levels) = (ALL, before);
        }
    }
    let of = |name: &str| confirmed(begin, &data, &compared, (found, name));
    let names = compared.plan.profiles.iter().map(|p| p.name.as_str());
    let beside = names.filter(|name| ![WINNER, ALL, found].contains(name)).map(of);
    let file = worker.folder.join(format!("{NAME}.toml"));
    let answer = Answer {
        confirmed: Some(of(winner)?),
        beside: beside.collect::<Result<_, _>>()?,
        beliefs: beliefs(begin, log.entries(), search),
        bundle: Some(shown(&bundle)),
        profile: Some(shown(&file)),
        levels,
        shares,
    };
    if answer.is_confirmed(begin) {
        let summary = format!("holdup tune: {} of {}", begin.metric, begin.workload);
        let profile = holdup_plan::profile_toml(NAME, &summary, &sets(begin, &answer.levels));
        let text = holdup_report::tuning_profile(begin, &answer, &conditions(log, &data), &profile);
        holdup_files::write_output(&file, text.as_bytes())
            .map_err(|e| Problem::host(format!("profile {}", file.display()), e.to_string()))?;
    }
    Ok(answer)
}

/// What fresh blocks say of a profile against the settings that were found.
fn confirmed(
    begin: &Begin,
    data: &BundleData,
    compared: &Planned,
    (found, name): (&str, &str),
) -> Result<Confirmed, Problem> {
    let all = comparisons(data, compared, found, name)?;
    let own = of_metric(&all, &begin.metric);
    let arm = arm_of(compared, found).map(|arm| arm.id);
    let of_found = |metric: &str| {
        let trials = data.trials.iter().filter(|t| t.is_done() && Some(t.arm) == arm);
        holdup_stats::geometric_mean(&trials.filter_map(|t| t.metric(metric)).collect::<Vec<_>>())
    };
    let guards = begin.guards.iter().map(|guard| {
        let ratio = of_metric(&all, &guard.metric).and_then(|c| c.ratio.clone());
        (ratio, of_found(&guard.metric).map_or(0.0, |mean| guard.allowed(mean)))
    });
    Ok(Confirmed {
        name: name.to_owned(),
        ratio: own.and_then(|c| c.ratio.clone()),
        caution: own.and_then(caution),
        guards: guards.collect(),
    })
}

/// On what the answer holds.
fn conditions(log: &Log<Entry>, data: &BundleData) -> Vec<String> {
    let host = log.entries().iter().rev().find_map(|entry| match entry {
        Entry::Host { host } => Some(host.clone()),
        _ => None,
    });
    let facts = data.environment.iter().flat_map(|reading| &reading.facts);
    let version = facts.filter(|fact| fact.key == "postgres.version").find_map(|fact| fact.value.clone());
    let load = data.plan.workloads.first().map(|used| {
        let named = |name: &&str| used.parameters.get(name).map(|value| format!("{name} {value}"));
        let of = ["clients", "scale", "script"].iter().filter_map(named);
        std::iter::once(used.kind.clone()).chain(of).collect::<Vec<_>>().join(", ")
    });
    host.into_iter().chain(version.map(|version| format!("PostgreSQL {version}"))).chain(load).collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Why a ratio is not to be trusted, where the run says so.
fn caution(c: &Comparison) -> Option<String> {
    match &c.verdict {
        Verdict::Undecided { reason, .. } => Some(reason.clone()),
        _ => None,
    }
}

fn comparisons(data: &BundleData, compared: &Planned, a: &str, b: &str) -> Result<Vec<Comparison>, Problem> {
    let label = |name: &str| {
        let missing = || Problem::internal(format!("profile {name}"), "it is no arm of the run");
        arm_of(compared, name).map(|arm| arm.label.clone()).ok_or_else(missing)
    };
    Ok(holdup_analysis::compare_arms(data, &label(a)?, &label(b)?)?.comparisons)
}

fn of_metric<'a>(all: &'a [Comparison], metric: &str) -> Option<&'a Comparison> {
    all.iter().find(|c| c.metric.id == metric)
}

/// A fixed number of blocks in one session.
fn fixed(overrides: &mut holdup_plan::Overrides, blocks: u32, aa: bool) {
    overrides.set.push(("aa".to_owned(), aa.to_string()));
    (overrides.max_blocks, overrides.blocks, overrides.sessions) = (None, Some(blocks), Some(1));
}

/// As many blocks as this share of what is left of the budget holds: at the pace of the search, or, where that was
/// simulated, at that of the plan.
fn blocks(worker: &Worker<'_>, log: &Log<Entry>, arms: usize, share: f64) -> Result<u32, Problem> {
    let (mut spent_s, mut search_s, mut trials) = (0.0, 0.0, 0_usize);
    for entry in of_host(log.entries()) {
        match entry {
            Entry::Block { spent_s: s, seen, .. } => {
                (spent_s, search_s, trials) = (spent_s + s, search_s + s, trials + seen.len());
            }
            Entry::Pruned { spent_s: s, .. } => spent_s += s,
            _ => {}
        }
    }
    let each_s = worker.trial_s()?.unwrap_or(search_s / trials.max(1) as f64);
    let left_s = (log.begin().budget_s - spent_s) * share;
    Ok(((left_s / (each_s * arms as f64)).max(0.0) as u32).clamp(*BLOCKS.start(), *BLOCKS.end()))
}
