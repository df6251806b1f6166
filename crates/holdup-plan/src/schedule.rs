//! Arms and trials in order, and how long they take.

use crate::{arms, order};
use holdup_model::plan::Level;
use holdup_model::{Plan, Problem, Schedule, TrialSpec};
use std::collections::BTreeMap;

/// Lays out the arms of a plan and puts all trials in order: in each block every arm once, in an order that is a
/// function of the plan's seed, the session and the block. Nothing is sorted to save restarts: randomness comes first.
///
/// # Errors
/// When the plan has more than [`crate::MOST_ARMS`] arms or [`crate::MOST_TRIALS`] trials (a plan that [`crate::check`]
/// passed has not), or a factor without levels.
pub fn schedule(plan: &Plan) -> Result<Schedule, Problem> {
    let arms = arms::all(plan)?;
    let many = u32::try_from(arms.len()).map_err(|e| Problem::internal("number of arms", e.to_string()))?;
    let mut trials = Vec::new();
    let mut block = 0;
    for session in 0..plan.design.sessions {
        for _ in 0..plan.design.blocks {
            for (position, arm) in (0..).zip(order::of_block(plan.design.seed, session, block, many)) {
                let seq = u32::try_from(trials.len()).unwrap_or(u32::MAX);
                trials.push(TrialSpec { seq, session, boot: session, block, position, arm });
            }
            block += 1;
        }
    }
    Ok(Schedule { arms, trials })
}

/// What a run takes beside the planned load, ns. The default is a first guess for a small local server, to be replaced
/// by what was measured: 0.4 s per trial (the same as the run loop starts with), 5 s per session, 1 s per restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overhead {
    /// For each trial: starting a load program, connecting, reading logs.
    pub per_trial_ns: u64,
    /// For each session: making a cluster, filling its tables.
    pub per_session_ns: u64,
    /// For each restart of a server under test.
    pub per_restart_ns: u64,
}

impl Default for Overhead {
    fn default() -> Self {
        Overhead { per_trial_ns: 400_000_000, per_session_ns: 5_000_000_000, per_restart_ns: 1_000_000_000 }
    }
}

/// How long a run of the schedule takes without repeats, ns; at most the plan's budget.
///
/// A server is taken to restart before a trial whose `postgres.…` levels differ from those of the last trial that had
/// some in the same session, and before each trial with an empty pool. A setting that needs no restart makes the
/// estimate too long.
pub fn estimate_ns(plan: &Plan, schedule: &Schedule, overhead: &Overhead) -> u64 {
    let design = &plan.design;
    let per_trial_ns = [design.settle_ns, design.warmup_ns, design.duration_ns]
        .iter()
        .fold(overhead.per_trial_ns, |sum, ns| sum.saturating_add(*ns));
    let trials = schedule.trials.len() as u64;
    let estimate_ns = per_trial_ns
        .saturating_mul(trials)
        .saturating_add(overhead.per_session_ns.saturating_mul(u64::from(design.sessions)))
        .saturating_add(overhead.per_restart_ns.saturating_mul(restarts(schedule)));
    design.budget_ns.map_or(estimate_ns, |budget_ns| estimate_ns.min(budget_ns))
}

/// The factor with which a server starts anew before every trial when its level is this one.
const EMPTY_POOL: (&str, &str) = ("postgres.pool", "cold");

fn restarts(schedule: &Schedule) -> u64 {
    let of_server: Vec<BTreeMap<&str, &Level>> = schedule
        .arms
        .iter()
        .map(|arm| {
            let of_server = arm.factors.iter().filter(|(name, _)| name.starts_with(crate::words::POSTGRES));
            of_server.map(|(name, level)| (name.as_str(), level)).collect()
        })
        .collect();
    let mut count = 0;
    let mut last: Option<(u32, &BTreeMap<&str, &Level>)> = None;
    for trial in &schedule.trials {
        let Some(levels) = of_server.get(trial.arm as usize).filter(|levels| !levels.is_empty()) else { continue };
        let is_empty_pool = levels.get(EMPTY_POOL.0).is_some_and(|level| level.label == EMPTY_POOL.1);
        let moved = last.is_some_and(|(session, before)| session == trial.session && before != levels);
        count += u64::from(is_empty_pool || moved);
        last = Some((trial.session, levels));
    }
    count
}
