//! Arms and trials in order, and how long they take.

use crate::{arms, order};
use holdup_model::plan::Level;
use holdup_model::{Arm, Plan, Problem, Replica, Schedule, TrialSpec};
use std::collections::BTreeMap;

/// Lays out the arms of a plan and puts all trials in order: in each block every arm once, in an order that is a
/// function of the plan's seed, the session and the block. Nothing is sorted to save restarts: randomness comes first.
///
/// Only what is chosen at boot parts a session: its boots are in an order that is a function of seed and session, and
/// each runs its own arms in every block of the session before the next one boots.
///
/// # Errors
/// When the plan has more than [`crate::MOST_ARMS`] arms or [`crate::MOST_TRIALS`] trials (a plan that [`crate::check`]
/// passed has not), or a factor without levels.
pub fn schedule(plan: &Plan) -> Result<Schedule, Problem> {
    let arms = arms::all(plan)?;
    let many = u32::try_from(arms.len()).map_err(|e| Problem::internal("number of arms", e.to_string()))?;
    let design = &plan.design;
    let (boot_of, boots) = boots(plan, &arms);
    let mut trials = Vec::new();
    let mut boot = 0;
    for session in 0..design.sessions {
        let blocks: Vec<(u32, Vec<u32>)> = (0..design.blocks)
            .map(|round| session.saturating_mul(design.blocks).saturating_add(round))
            .map(|block| (block, order::of_block(design.seed, session, block, many)))
            .collect();
        let mut positions = vec![0; blocks.len()];
        for of_session in order::of_boots(design.seed, session, boots) {
            for ((block, order), position) in blocks.iter().zip(&mut positions) {
                for &arm in order.iter().filter(|arm| boot_of.get(**arm as usize) == Some(&of_session)) {
                    let seq = u32::try_from(trials.len()).unwrap_or(u32::MAX);
                    trials.push(TrialSpec { seq, session, boot, block: *block, position: *position, arm });
                    *position += 1;
                }
            }
            boot += 1;
        }
    }
    Ok(Schedule { arms, trials })
}

/// A boot: the values of the factors that are chosen then, and whether it is for the A/A arms alone.
type Choice<'a> = (Vec<(&'a str, String)>, bool);

/// The boot of each arm among those of a session, numbered in the order of the arms, and how many there are.
///
/// Arms for which the same is chosen at boot share one. Where that varies, the A/A arms have a boot of their own:
/// what is compared then is boots, and two arms in one boot would show less noise than two boots have.
fn boots(plan: &Plan, arms: &[Arm]) -> (Vec<u32>, u32) {
    let varies = plan.varies_at_boot();
    let mut numbers: BTreeMap<Choice<'_>, u32> = BTreeMap::new();
    let mut boot_of = Vec::new();
    for arm in arms {
        let chosen =
            plan.chosen_at_boot(arm).into_iter().map(|(name, level)| (name, level.value.to_string())).collect();
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        boot_of.push(*numbers.entry((chosen, varies && arm.replica == Some(Replica::Same))).or_insert(next));
    }
    (boot_of, u32::try_from(numbers.len()).unwrap_or(u32::MAX))
}

/// Sessions from which the noise between boots can be estimated.
const FEW_SESSIONS: u32 = 3;

/// What is worth saying of a good plan before it runs, a line each.
pub fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    let sessions = plan.design.sessions;
    if plan.varies_at_boot() && sessions < FEW_SESSIONS {
        let often = if sessions == 1 { "once".to_owned() } else { format!("{sessions} times") };
        notes.push(format!(
            "what is chosen at boot varies, and each choice boots {often}: two boots of the same kernel differ too, and \
             only several sessions separate that from a difference (sessions = {FEW_SESSIONS} or more in [design])"
        ));
    }
    notes
}

/// What a run takes beside the planned load, ns. The default is a first guess for a small local server, to be replaced
/// by what was measured: 0.4 s per trial (the same as the run loop starts with), 5 s per session, 1 s per restart, 20 s
/// per boot of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overhead {
    /// For each trial: starting a load program, connecting, reading logs.
    pub per_trial_ns: u64,
    /// For each session, and each boot where it has several: making a cluster, filling its tables.
    pub per_session_ns: u64,
    /// For each restart of a server under test.
    pub per_restart_ns: u64,
    /// For each boot of a guest, until its first message.
    pub per_boot_ns: u64,
}

impl Default for Overhead {
    fn default() -> Self {
        Overhead {
            per_trial_ns: 400_000_000,
            per_session_ns: 5_000_000_000,
            per_restart_ns: 1_000_000_000,
            per_boot_ns: 20_000_000_000,
        }
    }
}

/// How long a run of the schedule takes without repeats, ns; at most the plan's budget.
///
/// A server is taken to restart before a trial whose `postgres.…` levels differ from those of the last trial that had
/// some in the same boot, and before each trial with an empty pool. A setting that needs no restart makes the
/// estimate too long.
pub fn estimate_ns(plan: &Plan, schedule: &Schedule, overhead: &Overhead) -> u64 {
    let design = &plan.design;
    let per_trial_ns = [design.settle_ns, design.warmup_ns, design.duration_ns]
        .iter()
        .fold(overhead.per_trial_ns, |sum, ns| sum.saturating_add(*ns));
    let trials = schedule.trials.len() as u64;
    let per_boot_ns = if plan.guest.is_some() { overhead.per_boot_ns } else { 0 };
    let boots = schedule.trials.chunk_by(|a, b| a.boot == b.boot).count() as u64;
    let estimate_ns = per_trial_ns
        .saturating_mul(trials)
        .saturating_add(overhead.per_session_ns.saturating_add(per_boot_ns).saturating_mul(boots))
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
        let moved = last.is_some_and(|(boot, before)| boot == trial.boot && before != levels);
        count += u64::from(is_empty_pool || moved);
        last = Some((trial.boot, levels));
    }
    count
}
